"""`lamina versions register|list|retire|impact`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlencode

import click
from rich.console import Group

from gateway.cli.administration import (
    Office,
    Outcome,
    administer,
    json_option,
    show,
    shown_text,
    shown_time,
    table,
)
from gateway.cli.gateway_client import GatewayClient, administrators_key, gateway_url
from gateway.cli.tenants import SEE_TENANTS
from gateway.db import (
    EVERYBODY,
    By,
    Changed,
    PurgeMode,
    RecordError,
    TenantRepository,
    VersionRepository,
    VersionRow,
)
from gateway.errors import LaminaError
from gateway.settings import settings_from_environment
from policies.dependencies import KINDS, DependencyRefused, Ref, Version
from policies.registrations import Registered, version_of

_OK = 200
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class ImpactUnknown(LaminaError):  # noqa: N818  (a state)
    """The gateway did not say."""


_tenant = click.option("--tenant", metavar="NAME", help="Whose; of every tenant, when it is left out.")
_soft = click.option("--soft", "mode", flag_value="soft", default="hard", help="Make entries stale, not dead.")


@click.group()
def versions() -> None:
    """Registers versions of prompts, tools, knowledge bases and more, and takes what stands on a change."""


@versions.command()
@click.argument("version", metavar="NAME@VERSION")
@click.option("--kind", type=click.Choice(KINDS), required=True)
@_tenant
@click.option("--depends-on", "on", metavar="NAME[@VERSION]", multiple=True, help="May be given again.")
@click.option("--instruction", "texts", type=_FILE, multiple=True, help="A file with a text that requests carry.")
@click.option("--tools", "tools", type=_FILE, help="A JSON file with a list of tools that requests carry.")
@click.option("--model", "models", metavar="NAME", multiple=True, help="A name by which the model is asked for.")
@click.option("--content", default="", metavar="TEXT", help="A digest, a date or the like of what it holds.")
@click.option("--beside", is_flag=True, help="Let versions that are live stay so.")
@_soft
@json_option
def register(
    version: str,
    *,
    kind: str,
    tenant: str | None,
    on: tuple[str, ...],
    texts: tuple[Path, ...],
    tools: Path | None,
    models: tuple[str, ...],
    content: str,
    beside: bool,
    mode: str,
    as_json: bool,
) -> None:
    """Registers a version; what stands on those it replaces goes, from the next request on."""
    ref = _ref(version)
    said = Registered(ref.name, ref.version, kind, on, tuple(map(_text, texts)), _tools(tools), models, content)
    try:
        made = version_of(said)
    except DependencyRefused as refused:
        raise click.UsageError(str(refused)) from None
    outcome = administer(lambda office: _registered(office, tenant, made, mode, beside=beside), advice=SEE_TENANTS)
    show(outcome, as_json=as_json)


@versions.command()
@click.argument("version", metavar="NAME@VERSION")
@_tenant
@_soft
@json_option
def retire(version: str, *, tenant: str | None, mode: str, as_json: bool) -> None:
    """Retires a version; what stands on it goes, from the next request on."""
    ref = _ref(version)

    async def work(office: Office) -> Outcome:
        by = By(office.actor, cast("PurgeMode", mode), office.now_s)
        return await _told(office, await VersionRepository(office.database).retire(tenant, ref, by))

    show(administer(work, advice=SEE_TENANTS), as_json=as_json)


@versions.command(name="list")
@click.option("--tenant", metavar="NAME", help="What a tenant sees; what is for every one, when it is left out.")
@click.option("--all", "retired", is_flag=True, help="Also those that were replaced or retired.")
@json_option
def list_(*, tenant: str | None, retired: bool, as_json: bool) -> None:
    """Lists versions and what they stand on."""

    async def work(office: Office) -> Outcome:
        owner = None if tenant is None else (await TenantRepository(office.database).find(tenant)).tenant_id
        rows = await VersionRepository(office.database).visible(owner)
        return _listed([row for row in rows if retired or row.retired_at is None])

    show(administer(work, advice=SEE_TENANTS), as_json=as_json)


@versions.command()
@click.argument("version", metavar="NAME[@VERSION]")
@_tenant
@click.option("--change", type=click.Choice(["register", "retire", "content"]), help="What would happen.")
@click.option("--beside", is_flag=True, help="Of register: versions that are live would stay so.")
@click.option("--url", metavar="URL", help="The gateway; the one that runs here, when it is left out.")
@json_option
def impact(
    version: str, *, tenant: str | None, change: str | None, beside: bool, url: str | None, as_json: bool
) -> None:
    """Says what a change would take, and changes nothing: of NAME, should it get a new version; of NAME@VERSION,
    should its content change.
    """
    settings = settings_from_environment()
    client = GatewayClient(gateway_url(settings, url), administrators_key(settings))
    asked = {"tenant": tenant, "change": change, "beside": "true" if beside else None}
    query = urlencode({name: value for name, value in asked.items() if value is not None})
    answer = client.get(f"/admin/v1/dependencies/{quote(version, safe='@')}/impact?{query}")
    if answer.status != _OK:
        raise ImpactUnknown(answer.problem)
    show(Outcome(answer.body, _shown_impact(answer.body)), as_json=as_json)


async def _registered(office: Office, tenant: str | None, version: Version, mode: str, *, beside: bool) -> Outcome:
    by = By(office.actor, cast("PurgeMode", mode), office.now_s)
    changed = await VersionRepository(office.database).register(tenant, version, by, beside=beside)
    return await _told(office, changed)


async def _told(office: Office, changed: Changed) -> Outcome:
    announced = await office.announce_all(changed.heads)
    taken = sorted(str(one.ref) for one in changed.taken.versions)
    data = {**_row(changed.row), "outcome": changed.outcome, "taken": taken, "purges": changed.purges}
    shown = f"{changed.row.version.ref}: {changed.outcome}"
    if taken:
        shown += "; what was made with these is gone: " + ", ".join(taken)
    note = None
    if changed.row.version.templates and changed.outcome != "retired":
        note = "texts with gaps are recognised in answers from now on, not in those that are stored already"
    return Outcome(data, shown_text(shown), note, announced=announced)


def _listed(rows: Sequence[VersionRow]) -> Outcome:
    shown = table("version", "kind", "depends on", "recognised by", "for", "registered", "retired")
    for row in rows:
        version = row.version
        shown.add_row(
            shown_text(str(version.ref)),
            version.kind,
            ", ".join(str(ref) for ref in version.depends_on),
            shown_text(_recognised(version)),
            "every tenant" if row.scope == EVERYBODY else row.scope,
            shown_time(row.registered_at),
            shown_time(row.retired_at),
        )
    return Outcome({"versions": [_row(row) for row in rows]}, shown)


def _recognised(version: Version) -> str:
    counts = {"digests": len(version.prints), "templates": len(version.templates)}
    return ", ".join([*version.models, *(f"{count} {what}" for what, count in counts.items() if count)])


def _row(row: VersionRow) -> dict[str, Any]:
    version = row.version
    return {
        "id": str(version.ref),
        "tenant_id": None if row.scope == EVERYBODY else row.scope,
        "kind": version.kind,
        "depends_on": [str(ref) for ref in version.depends_on],
        "digests": len(version.prints),
        "templates": len(version.templates),
        "models": list(version.models),
        "content": version.content,
        "registered_at": row.registered_at,
        "retired_at": row.retired_at,
    }


def _shown_impact(body: dict[str, Any]) -> Group:
    counts = table("layer", "would go", "looked at")
    for layer, count in body["matches"].items():
        counts.add_row(layer, str(count), str(body["looked_at"].get(layer, 0)))
    taken = ", ".join(body["taken"]) or "no registered version"
    lines: list[Any] = [shown_text(f"{body['change']} of {body['id']} would take: {taken}"), counts]
    if not body["complete"]:
        lines.append("time was up before everything was looked at: there may be more")
    return Group(*lines)


def _ref(text: str) -> Ref:
    try:
        ref = Ref.parse(text)
    except DependencyRefused as refused:
        raise click.UsageError(str(refused)) from None
    if not ref.version:
        raise click.UsageError("give NAME@VERSION")
    return ref


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise RecordError("invalid", f"{path} is no UTF-8 text") from None


def _tools(path: Path | None) -> tuple[dict[str, Any], ...]:
    if path is None:
        return ()
    try:
        listed = json.loads(_text(path))
    except ValueError:
        listed = None
    if not isinstance(listed, list) or not all(isinstance(tool, dict) for tool in listed):
        raise RecordError("invalid", f"{path} is no JSON list of tools")
    return tuple(listed)
