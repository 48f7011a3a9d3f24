"""The audit: one row per change, written in the change's own transaction."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db.database import Database
from gateway.db.records import AuditRow
from gateway.db.tables import AUDIT

_MAX_ROWS = 1000


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which rows of the audit are asked for; None takes all.

    Attributes:
        tenants: ids.
        action: whole, or its beginning when it ends in a dot, as in `key.`.
        from_s, until_s: seconds since the epoch, the latter not included.
        newest_first: the order.
    """

    tenants: frozenset[str] | None = None
    actor: str | None = None
    action: str | None = None
    from_s: float | None = None
    until_s: float | None = None
    newest_first: bool = True


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

    async def page(self, asked: AuditQuery, limit: int, after: int | None) -> list[AuditRow]:
        """Lists at most `limit` rows, those that come after row `after` in the query's order."""
        query = select(AUDIT).where(*_conditions(asked)).limit(limit)
        newest = asked.newest_first
        query = query.order_by(AUDIT.c.id.desc() if newest else AUDIT.c.id)
        if after is not None:
            query = query.where(AUDIT.c.id < after if newest else AUDIT.c.id > after)

        async def work(connection: AsyncConnection) -> list[AuditRow]:
            return [AuditRow(*row) for row in await connection.execute(query)]

        return await self._database.read(work)

    async def add(self, row: AuditRow) -> None:
        """Writes a row of its own, for a change that is made of several transactions; its number is given anew."""

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(
                insert(AUDIT).values(
                    at=row.at,
                    actor=row.actor,
                    action=row.action,
                    tenant_id=row.tenant_id,
                    target=row.target,
                    detail=row.detail,
                )
            )

        await self._database.write(work)


def _conditions(asked: AuditQuery) -> Iterator[ColumnElement[bool]]:
    columns = AUDIT.c
    if asked.tenants is not None:
        yield columns.tenant_id.in_(sorted(asked.tenants))
    if asked.actor is not None:
        yield columns.actor == asked.actor
    if asked.action is not None:
        begins = asked.action.endswith(".")
        yield (
            columns.action.startswith(asked.action, autoescape=True) if begins else columns.action == asked.action
        )
    if asked.from_s is not None:
        yield columns.at >= asked.from_s
    if asked.until_s is not None:
        yield columns.at < asked.until_s


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
