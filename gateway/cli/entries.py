"""`lamina entries list|show|delete`."""

import json
from typing import Any
from urllib.parse import quote, urlencode

import click
from rich.console import Group

from gateway.cli.administration import Outcome, json_option, show, shown_text, table
from gateway.cli.gateway_client import Answer, GatewayClient, administrators_key, gateway_url
from gateway.cli.purge import entry_table
from gateway.errors import LaminaError
from gateway.settings import settings_from_environment

_OK = 200
_SOUGHT = ("model", "route", "tag", "user", "session", "version", "age")
url_option = click.option("--url", metavar="URL", help="The gateway; else the set in LAMINA_HOME.")
tenant_option = click.option("--tenant", default="default", show_default=True, metavar="NAME", help="Whose.")


class EntriesError(LaminaError):
    """The gateway did not do it."""


@click.group()
def entries() -> None:
    """Looks through what a running gateway has stored. Only `show --text` shows questions and answers."""


@entries.command(name="list")
@tenant_option
@click.option("--model", metavar="M", help="Of a model.")
@click.option("--route", metavar="R", help="Of a route.")
@click.option("--tag", metavar="T", help="With a tag.")
@click.option("--user", metavar="U", help="Made for a user.")
@click.option("--session", metavar="S", help="Made for a session.")
@click.option("--version", metavar="NAME=VALUE", help="Of a version: prompt=3, prompt=* or prompt<3.")
@click.option("--age", metavar="AGE", help="Made before: 30m, 7d, or 2026-11-30T08:00:00Z.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="About so many.")
@url_option
@json_option
def list_(tenant: str, limit: int, url: str | None, *, as_json: bool, **sought: str | None) -> None:
    """Lists live entries of both layers that answer to every name given."""
    client = _client(url)
    found: list[dict[str, Any]] = []
    after: str | None = ""
    while after is not None and len(found) < limit:
        wanted = {"tenant": tenant, "limit": str(min(limit, 1000)), "after": after}
        wanted |= {name: value for name in _SOUGHT if (value := sought.get(name)) is not None}
        page = _good(client.get(f"/admin/v1/entries?{urlencode({k: v for k, v in wanted.items() if v})}"))
        found += page["items"]
        after = page["next"]
    more = after is not None or len(found) > limit
    note = "there are more; raise --limit" if more else None
    show(Outcome({"entries": found[:limit], "more": more}, entry_table(found[:limit]), note), as_json=as_json)


@entries.command(name="show")
@click.argument("entry_id")
@tenant_option
@click.option("--text", is_flag=True, help="Question and answer too; takes the role operator.")
@url_option
@json_option
def show_(entry_id: str, tenant: str, *, text: bool, url: str | None, as_json: bool) -> None:
    """Shows what is known of the answer with this X-Lamina-Cache-Id."""
    path = f"/admin/v1/entries/{quote(tenant, safe='')}/{quote(entry_id, safe='')}"
    told = _good(_client(url).get(f"{path}?text=true" if text else path))
    lines: list[Any] = []
    for one in told["entries"]:
        facts = table(one["layer"], "")
        for name, value in one.items():
            facts.add_row(name, shown_text(str(value)))
        lines += [facts, ""]
    if text:
        said = [
            ("question", told["question"] or "not kept"),
            *(("answer", _said(message)) for message in told["answer"] or ()),
        ]
        lines += [f"{name}: {shown_text(str(words))}" for name, words in said]
    show(Outcome(told, Group(*lines)), as_json=as_json)


@entries.command()
@click.argument("entry_id")
@tenant_option
@click.option("--reason", default="", metavar="TEXT", help="Kept in the purge log.")
@url_option
@json_option
def delete(entry_id: str, tenant: str, reason: str, *, url: str | None, as_json: bool) -> None:
    """Purges the answer with this X-Lamina-Cache-Id, hard; the same as `lamina purge --entry`."""
    body = {"tenant": tenant, "kind": "entry", "value": entry_id, "reason": reason}
    told = _good(_client(url).post("/admin/v1/purges", body))
    show(Outcome(told, f"purge {told['seq']}: entry {told['value']}", announced=True), as_json=as_json)


def _client(url: str | None) -> GatewayClient:
    settings = settings_from_environment()
    return GatewayClient(gateway_url(settings, url), administrators_key(settings))


def _said(message: dict[str, Any]) -> str:
    """The text of an answer, or all of it as JSON where it has none."""
    content = message.get("content")
    return content if isinstance(content, str) and content else json.dumps(message, ensure_ascii=False)


def _good(answer: Answer) -> dict[str, Any]:
    if answer.status != _OK:
        raise EntriesError(answer.problem)
    body: dict[str, Any] = answer.body
    return body
