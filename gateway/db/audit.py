"""The audit: one row per change, written in the change's own transaction."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db.database import Database
from gateway.db.records import AuditRow
from gateway.db.tables import AUDIT

_MAX_ROWS = 1000


class AuditRepository:
    """Reads the audit; rows are written by the repositories whose changes they record."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def since(self, audit_id: int = 0, *, tenant_id: str | None = None) -> list[AuditRow]:
        """Lists rows after `audit_id`, oldest first, at most 1000, of one tenant or of all."""
        query = select(AUDIT).where(AUDIT.c.id > audit_id).order_by(AUDIT.c.id).limit(_MAX_ROWS)
        if tenant_id is not None:
            query = query.where(AUDIT.c.tenant_id == tenant_id)

        async def work(connection: AsyncConnection) -> list[AuditRow]:
            return [AuditRow(*row) for row in await connection.execute(query)]

        return await self._database.read(work)


async def record(
    connection: AsyncConnection,
    action: str,
    *,
    actor_at: tuple[str, float],
    tenant_id: str | None,
    target: str,
    detail: Mapping[str, object],
) -> None:
    """Writes one row inside the caller's transaction; `detail` holds no secret.

    Args:
        connection: the transaction that makes the change.
        action: what was done, as `key.revoke`.
        actor_at: who did it, and when (seconds since the epoch).
        tenant_id: whose records changed; None for what concerns every tenant.
        target: the id of what was changed.
        detail: what else an auditor needs.
    """
    await record_all(connection, action, [Audited(actor_at, tenant_id, target, detail)])


@dataclass(frozen=True, slots=True)
class Audited:
    """What one row says; see `record`."""

    actor_at: tuple[str, float]
    tenant_id: str | None
    target: str
    detail: Mapping[str, object]


async def record_all(connection: AsyncConnection, action: str, rows: Sequence[Audited]) -> None:
    """Writes several rows of one action, in this order, inside the caller's transaction."""
    values = [
        {
            "at": row.actor_at[1],
            "actor": row.actor_at[0],
            "action": action,
            "tenant_id": row.tenant_id,
            "target": row.target,
            "detail": json.dumps(row.detail, sort_keys=True),
        }
        for row in rows
    ]
    await connection.execute(insert(AUDIT), values)
