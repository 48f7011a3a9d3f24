"""`lamina audit`."""

import json
from datetime import UTC, datetime

import click

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
from gateway.cli.tenants import SEE_TENANTS
from gateway.db import AuditRepository, AuditRow, TenantRepository
from gateway.db.audit import AuditQuery

_TIMES = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S")


@click.command()
@click.option("--tenant", metavar="NAME", help="What concerns one tenant.")
@click.option("--actor", metavar="WHO", help="As shown: admin, token:A…, cli:NAME, key K….")
@click.option("--action", metavar="WHAT", help="As shown, or a beginning that ends in a dot: key.")
@click.option("--since", type=click.DateTime(_TIMES), metavar="TIME", help="From this time of UTC on.")
@click.option("--until", type=click.DateTime(_TIMES), metavar="TIME", help="Before this time of UTC.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At most so many.")
@json_option
def audit(  # noqa: PLR0917  (one per option)
    tenant: str | None,
    actor: str | None,
    action: str | None,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    *,
    as_json: bool,
) -> None:
    """Shows who changed what, the newest first."""
    asked = AuditQuery(None, actor, action, _seconds(since), _seconds(until))
    show(administer(lambda office: read_audit(office, asked, tenant, limit), advice=SEE_TENANTS), as_json=as_json)


async def read_audit(office: Office, asked: AuditQuery, tenant: str | None, limit: int) -> Outcome:
    """Reads rows of the audit."""
    tenants = TenantRepository(office.database)
    if tenant is not None:
        only = frozenset({(await tenants.find(tenant)).tenant_id})
        asked = AuditQuery(only, asked.actor, asked.action, asked.from_s, asked.until_s)
    found = await AuditRepository(office.database).page(asked, limit, None)
    names = {record.tenant_id: record.name for record in await tenants.list()}
    shown = table("number", "at (UTC)", "actor", "action", "tenant", "target", "detail")
    for row in found:
        shown.add_row(
            str(row.audit_id),
            shown_time(row.at),
            shown_text(row.actor),
            row.action,
            names.get(row.tenant_id or "", row.tenant_id or ""),
            shown_text(row.target),
            shown_text(row.detail),
        )
    note = None if found else "nothing was changed that this asks for"
    return Outcome({"audit": [_as_data(row) for row in found]}, shown, note)


def _seconds(time: datetime | None) -> float | None:
    return None if time is None else time.replace(tzinfo=UTC).timestamp()


def _as_data(row: AuditRow) -> dict[str, object]:
    return {
        "id": row.audit_id,
        "at": row.at,
        "actor": row.actor,
        "action": row.action,
        "tenant_id": row.tenant_id,
        "target": row.target,
        "detail": json.loads(row.detail),
    }
