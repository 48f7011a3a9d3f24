"""`lamina erase`: forgets a tenant or a user everywhere, and shows the proof."""

import json
import time
from collections.abc import Mapping
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from gateway.cli.administration import json_option, shown_text, table
from gateway.cli.gateway_client import Answer, GatewayClient, administrators_key, gateway_url
from gateway.errors import LaminaError
from gateway.settings import settings_from_environment

_PATH = "/admin/v1/erasures"
_POLL_S = 0.5
_GIVE_UP_S = 1800.0
_OK = 400


class EraseFailed(LaminaError):  # noqa: N818  (a state)
    """The gateway refused, or something may be left."""


@click.command()
@click.option("--tenant", required=True, metavar="NAME", help="Whose data: a tenant's name or id.")
@click.option("--user", metavar="ID", help="Only that of one end user, as requests name them.")
@click.option(
    "--destroy-key", is_flag=True, help="Of a user: destroy the tenant's data keys too; its cache is lost."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--url", metavar="URL", help="The gateway; else the one that runs in this home.")
@json_option
@click.pass_context
def erase(  # noqa: PLR0917  (options)
    ctx: click.Context, tenant: str, user: str | None, destroy_key: bool, yes: bool, url: str | None, as_json: bool
) -> None:
    """Forgets a tenant, or one of its users, in every store, and prints the proof.

    A tenant is shut out for good, its data key destroyed, and everything that it stored removed. A running gateway
    does the work. Exit status 1 when something may be left; giving the command again is harmless.
    """
    whole = "EVERYTHING of tenant" if user is None else "everything of one user of tenant"
    if not yes:
        click.confirm(f"Erase {whole} {tenant}, for good?", abort=True, err=True)
    settings = settings_from_environment()
    client = GatewayClient(gateway_url(settings, url), administrators_key(settings))
    body = {"tenant": tenant, "destroy_key": destroy_key} | ({} if user is None else {"user": user})
    begun = _said(client.post(_PATH, body))
    done = _followed(client, str(begun["id"]), quiet=as_json)
    if as_json:
        click.echo(json.dumps(done))
    else:
        _show(done)
    report = done.get("report") or {}
    if done["state"] != "done" or not report.get("complete"):
        click.echo(f"error: {_why(done)}", err=True)
        ctx.exit(1)


def _followed(client: GatewayClient, erasure_id: str, *, quiet: bool) -> Mapping[str, Any]:
    """The erasure once it has ended; its steps are shown meanwhile, on a terminal."""
    give_up_at = time.monotonic() + _GIVE_UP_S
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f}"))
    with Progress(*columns, console=Console(stderr=True), disable=quiet, transient=True) as progress:
        bar = progress.add_task("erasing", total=10)
        while True:
            told = _said(client.get(f"{_PATH}/{erasure_id}"))
            if told["state"] != "running":
                return told
            steps = told["steps"]
            name = steps[-1]["name"] if steps else "erasing"
            progress.update(bar, description=name, completed=len(steps), total=told["planned"] or 10)
            if time.monotonic() > give_up_at:
                raise EraseFailed(f"erasure {erasure_id} has not ended; see GET {_PATH}/{erasure_id}")
            time.sleep(_POLL_S)


def _said(answer: Answer) -> Mapping[str, Any]:
    if answer.status >= _OK or not isinstance(answer.body, dict):
        raise EraseFailed(answer.problem)
    body: Mapping[str, Any] = answer.body
    return body


def _show(done: Mapping[str, Any]) -> None:
    report: Mapping[str, Any] = done.get("report") or {}
    console = Console(highlight=False, emoji=False)
    shown = table("store", "looked at", "found", "removed", "left", "note")
    for store in report.get("stores", ()):
        left = "unknown" if store["left"] is None else str(store["left"])
        figures = (str(store[name]) for name in ("looked_at", "found", "removed"))
        shown.add_row(store["store"], *figures, left, shown_text(store["note"]))
    console.print(shown)
    if report:
        keys = ", ".join(report["keys_destroyed"]) or "none"
        click.echo(f"purge {report['purge_seq']}; data keys destroyed: {keys}; signature {done['signature']}")
    click.echo(f"erasure {done['id']}: {done['state']}", err=True)


def _why(done: Mapping[str, Any]) -> str:
    if done["state"] != "done":
        said = ", ".join(step["name"] for step in done["steps"])
        return f"the erasure {done['state']}: {said or 'no reason is known'}; give the command again"
    return "something may be left: see the column `left`, and give the command again"
