"""`lamina purge`."""

from dataclasses import dataclass
from typing import cast

import click

from gateway.cli.administration import Office, Outcome, administer, json_option, show, shown_text
from gateway.cli.tenants import SEE_TENANTS
from gateway.db import PurgeKind, PurgeMode, PurgeRepository, TenantRepository

_SCOPES = "gateway.cli.purge"


@dataclass(frozen=True, slots=True)
class Scope:
    """What a purge names."""

    kind: PurgeKind
    value: str


def _take_scope(ctx: click.Context, param: click.Parameter, value: str | bool | None) -> None:
    if value is None or value is False:
        return
    kind = cast("PurgeKind", param.name)  # each option below is named after its kind
    ctx.meta.setdefault(_SCOPES, []).append(Scope(kind, "" if value is True else str(value)))


@click.command()
@click.option("--tenant", required=True, metavar="NAME", help="Whose entries: a tenant's name.")
@click.option("--all", is_flag=True, expose_value=False, callback=_take_scope, help="All of the tenant's entries.")
@click.option("--key", metavar="DIGEST", expose_value=False, callback=_take_scope, help="The entry of one key.")
@click.option("--tag", metavar="T", expose_value=False, callback=_take_scope, help="Entries with a tag.")
@click.option("--model", metavar="M", expose_value=False, callback=_take_scope, help="Entries of a model.")
@click.option(
    "--user", metavar="U", expose_value=False, callback=_take_scope, help="Entries scoped to an end user."
)
@click.option(
    "--version",
    metavar="NAME=VALUE",
    expose_value=False,
    callback=_take_scope,
    help="Entries made under a version, such as prompt=3.",
)
@click.option("--soft", "mode", flag_value="soft", default="hard", help="Make entries stale instead of dead.")
@click.option("--reason", default="", metavar="TEXT", help="Kept in the purge log.")
@json_option
@click.pass_context
def purge(ctx: click.Context, tenant: str, mode: PurgeMode, reason: str, as_json: bool) -> None:
    """Makes cached entries unusable from the next request on, everywhere.

    Give exactly one of --all, --key, --tag, --model, --user and --version.
    """
    scopes: list[Scope] = ctx.meta.get(_SCOPES, [])
    if len(scopes) != 1:
        raise click.UsageError("give exactly one of --all, --key, --tag, --model, --user and --version")
    outcome = administer(lambda office: append_purge(office, tenant, scopes[0], mode, reason), advice=SEE_TENANTS)
    show(outcome, as_json=as_json)


async def append_purge(office: Office, tenant: str, scope: Scope, mode: PurgeMode, reason: str) -> Outcome:
    """Appends to the purge log and announces the number."""
    owner = await TenantRepository(office.database).find(tenant)
    row = await PurgeRepository(office.database).append(
        owner.tenant_id, scope.kind, scope.value, mode, office.actor, reason, office.now_s
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
    what = "everything" if row.kind == "all" else f"{row.kind} {shown_text(row.value)}"
    return Outcome(data, f"purge {row.seq} of tenant {owner.name}: {what} ({row.mode})", announced=announced)
