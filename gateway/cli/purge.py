"""`lamina purge`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import click
from rich.console import Group

from gateway.cli.administration import Office, Outcome, administer, json_option, show, shown_text, table
from gateway.cli.gateway_client import Answer, GatewayClient, administrators_key, gateway_url
from gateway.cli.tenants import SEE_TENANTS
from gateway.db import PurgeKind, PurgeMode, PurgeRepository, RecordError, TenantRepository
from gateway.errors import LaminaError
from gateway.settings import settings_from_environment
from policies.purge_requests import PurgeRefused, read_scope

Command = TypeVar("Command", bound=Callable[..., object])
_SCOPES = "gateway.cli.purge"
_OK = 200
_ASKED = {"all": "tenant", "key": "entry", "near": "meaning"}
_NAMES = "--all, --entry, --tag, --user, --session, --model, --route, --version, --age and --near"


class PurgeFailed(LaminaError):  # noqa: N818  (a state)
    """The gateway did not do it."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a purge names: an option's name and its value."""

    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class Near:
    """How near to a text is near enough."""

    similarity: float | None
    count: int | None


def _take_scope(ctx: click.Context, param: click.Parameter, value: str | bool | None) -> None:
    if value is None or value is False:
        return
    kind = str(param.name)  # each option below is named after its kind
    ctx.meta.setdefault(_SCOPES, []).append(Scope(kind, "" if value is True else str(value)))


def _scope_option(*names: str, metavar: str, help_: str) -> Callable[[Command], Command]:
    return click.option(*names, metavar=metavar, expose_value=False, callback=_take_scope, help=help_)


@click.command()
@click.option("--tenant", required=True, metavar="NAME", help="Whose entries: a tenant's name.")
@click.option("--all", is_flag=True, expose_value=False, callback=_take_scope, help="All of the tenant's entries.")
@_scope_option("--entry", "--key", "key", metavar="ID", help_="The entry with this X-Lamina-Cache-Id.")
@_scope_option("--tag", metavar="T", help_="Entries with a tag.")
@_scope_option("--user", metavar="U", help_="Entries made for an end user, whatever their scope.")
@_scope_option("--session", metavar="S", help_="Entries made for a session.")
@_scope_option("--model", metavar="M", help_="Entries of a model.")
@_scope_option("--route", metavar="R", help_="Entries of a route.")
@_scope_option("--version", metavar="NAME=VALUE", help_="Entries of a version: prompt=3, prompt=* or prompt<3.")
@_scope_option("--age", metavar="AGE", help_="Entries made before: 30m, 7d, or 2026-11-30T08:00:00Z.")
@_scope_option("--near", metavar="TEXT", help_="Entries about the same as a text (asks a running gateway).")
@click.option("--similarity", type=click.FloatRange(-1, 1), help="With --near: least cosine.")
@click.option("--count", type=click.IntRange(1), help="With --near: the nearest so many.")
@click.option("--soft", "mode", flag_value="soft", default="hard", help="Make entries stale instead of dead.")
@click.option("--reason", default="", metavar="TEXT", help="Kept in the purge log.")
@click.option("--dry-run", is_flag=True, help="Show what would go, and change nothing (asks a running gateway).")
@click.option("--url", metavar="URL", help="The gateway; else the set in LAMINA_HOME.")
@json_option
@click.pass_context
def purge(  # noqa: PLR0917  (one parameter per option)
    ctx: click.Context,
    tenant: str,
    similarity: float | None,
    count: int | None,
    mode: PurgeMode,
    reason: str,
    *,
    dry_run: bool,
    url: str | None,
    as_json: bool,
) -> None:
    """Makes cached entries unusable from the next request on, everywhere.

    Give exactly one of --all, --entry, --tag, --user, --session, --model, --route, --version, --age and --near.
    """
    scopes: list[Scope] = ctx.meta.get(_SCOPES, [])
    if len(scopes) != 1:
        raise click.UsageError(f"give exactly one of {_NAMES}")
    scope, near = scopes[0], Near(similarity, count)
    if (scope.kind == "near") is (near == Near(None, None)):
        raise click.UsageError("--near takes --similarity, --count or both; nothing else does")
    if dry_run or scope.kind == "near":
        body = _body(tenant, scope, near, mode, reason)
        outcome = _previewed(_ask(url, "/preview", body)) if dry_run else _told(_ask(url, "", body))
    else:
        outcome = administer(lambda office: append_purge(office, tenant, scope, mode, reason), advice=SEE_TENANTS)
    show(outcome, as_json=as_json)


async def append_purge(office: Office, tenant: str, scope: Scope, mode: PurgeMode, reason: str) -> Outcome:
    """Appends to the purge log and announces the number; needs no running gateway."""
    owner = await TenantRepository(office.database).find(tenant)
    try:
        named = read_scope(scope.kind, scope.value, office.now_s)
    except PurgeRefused as refused:
        raise RecordError("invalid", str(refused)) from None
    kind = cast("PurgeKind", named.kind)
    row = await PurgeRepository(office.database).append(
        owner.tenant_id, kind, named.value, mode, office.actor, reason, office.now_s
    )
    announced = await office.announce(owner.tenant_id, owner.auth_seq, row.seq)
    data = {
        "tenant_id": row.tenant_id,
        "seq": row.seq,
        "kind": row.kind,
        "value": row.value,
        "mode": row.mode,
        "reason": row.reason,
        "at": row.at,
    }
    what = "everything" if row.kind == "all" else f"{scope.kind} {shown_text(scope.value)}"
    return Outcome(data, f"purge {row.seq} of tenant {owner.name}: {what} ({row.mode})", announced=announced)


def _body(tenant: str, scope: Scope, near: Near, mode: str, reason: str) -> dict[str, Any]:
    kind = _ASKED.get(scope.kind, scope.kind)
    body: dict[str, Any] = {"tenant": tenant, "kind": kind, "mode": mode, "reason": reason}
    if kind != "meaning":
        return {**body, "value": scope.value}
    bounds = {"similarity": near.similarity, "count": near.count}
    return {**body, "text": scope.value, **{name: value for name, value in bounds.items() if value is not None}}


def _ask(url: str | None, path: str, body: dict[str, Any]) -> Answer:
    settings = settings_from_environment()
    client = GatewayClient(gateway_url(settings, url), administrators_key(settings))
    answer = client.post(f"/admin/v1/purges{path}", body)
    if answer.status != _OK:
        raise PurgeFailed(answer.problem)
    return answer


def _told(answer: Answer) -> Outcome:
    body = answer.body
    said = f"purge {body['seq']}: {body['members']} entries by meaning ({body['mode']})"
    return Outcome({**body, "tenant_id": body["tenant"]}, said, announced=True)


def _previewed(answer: Answer) -> Outcome:
    body = answer.body
    counts = table("layer", "would go", "looked at")
    for layer, matches in body["matches"].items():
        counts.add_row(layer, str(matches), str(body["looked_at"][layer]))
    note = None if body["complete"] else "the time was up before everything was looked at: there may be more"
    return Outcome(body, Group(counts, "", entry_table(body["sample"])), note)


def entry_table(entries: list[dict[str, Any]]) -> Any:
    """Entries as the administrator's API tells them, one line each."""
    if not entries:
        return "no entries"
    shown = table("id", "layer", "model", "route", "age s", "ttl s", "tags")
    for one in entries:
        ages = (f"{one['age_s']:.0f}", f"{one['ttl_s']:.0f}")
        words = (one["id"], one["layer"], one["model"], one["route"], *ages, ", ".join(one["tags"]))
        shown.add_row(*map(shown_text, words))
    return shown
