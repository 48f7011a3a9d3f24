"""The purge log: append-only, numbered per tenant without gaps; the truth that every cache entry is judged by."""

from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db import audit
from gateway.db.credentials import check_purge, check_text, is_name_or_id
from gateway.db.database import Database
from gateway.db.errors import RecordError
from gateway.db.records import PurgeKind, PurgeMode, PurgeRow
from gateway.db.tables import PURGE_LOG, TENANTS


class PurgeRepository:
    """Appends to the log and reads it from a sequence number on."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(  # noqa: PLR0917  (the columns of one row, each by name in any sane call)
        self,
        tenant_id: str,
        kind: PurgeKind,
        value: str,
        mode: PurgeMode,
        actor: str,
        reason: str,
        now_s: float,
    ) -> PurgeRow:
        """Appends a purge under the tenant's next number; number, row and audit row are one transaction.

        Whoever has seen number n in `heads` or `state` finds all rows up to n in `since`.

        Raises:
            RecordError: not_found: no such tenant; invalid: a kind, value or mode that can match nothing.
            DatabaseUnavailable: see `Database.write`; doing it again is harmless, it purges a second time.
        """
        check_purge(kind, value, mode)
        check_text("the actor", actor)
        check_text("the reason", reason)
        number = (
            update(TENANTS)
            .where(TENANTS.c.id == tenant_id)
            .values(purge_seq=TENANTS.c.purge_seq + 1)
            .returning(TENANTS.c.purge_seq)
        )

        async def work(connection: AsyncConnection) -> PurgeRow:
            # the update locks the tenant's row until the commit, so numbers become visible in order
            seq = (await connection.execute(number)).scalar_one_or_none() if is_name_or_id(tenant_id) else None
            if seq is None:
                raise RecordError("not_found", f"there is no tenant {tenant_id[:80]!r}")
            row = PurgeRow(tenant_id, seq, kind, value, mode, actor, reason, now_s)
            await _insert(connection, row)
            return row

        return await self._database.write(work)

    async def close_gap(self, tenant_id: str, seq: int, now_s: float) -> None:
        """Makes up for purges that the database lost, as a restored backup does: all up to `seq` is purged, hard.

        What those purges named is not known any more, so everything made before them is dead. A second time, or a
        sequence that the database knows, changes nothing.

        Raises:
            DatabaseUnavailable: see `Database.write`.
        """
        lower = update(TENANTS).where(TENANTS.c.id == tenant_id, TENANTS.c.purge_seq < seq)

        async def work(connection: AsyncConnection) -> None:
            if (await connection.execute(lower.values(purge_seq=seq))).rowcount:
                reason = "the database knew fewer purges than Redis"
                await _insert(connection, PurgeRow(tenant_id, seq, "all", "", "hard", "lamina", reason, now_s))

        await self._database.write(work)

    async def since(self, tenant_id: str, seq: int) -> list[PurgeRow]:
        """Lists the tenant's purges numbered above `seq`, ascending."""
        query = (
            select(PURGE_LOG)
            .where(PURGE_LOG.c.tenant_id == tenant_id, PURGE_LOG.c.seq > seq)
            .order_by(PURGE_LOG.c.seq)
        )

        async def work(connection: AsyncConnection) -> list[PurgeRow]:
            return [PurgeRow(*row) for row in await connection.execute(query)]

        return await self._database.read(work)

    async def heads(self) -> dict[str, tuple[int, int]]:
        """Maps each tenant's id to its (auth_seq, purge_seq), disabled tenants too."""
        query = select(TENANTS.c.id, TENANTS.c.auth_seq, TENANTS.c.purge_seq)

        async def work(connection: AsyncConnection) -> dict[str, tuple[int, int]]:
            return {
                tenant_id: (auth_seq, purge_seq)
                for tenant_id, auth_seq, purge_seq in await connection.execute(query)
            }

        return await self._database.read(work)


async def _insert(connection: AsyncConnection, row: PurgeRow) -> None:
    await connection.execute(
        insert(PURGE_LOG).values(
            tenant_id=row.tenant_id,
            seq=row.seq,
            kind=row.kind,
            value=row.value,
            mode=row.mode,
            actor=row.actor,
            reason=row.reason,
            at=row.at,
        )
    )
    await audit.record(
        connection,
        "purge",
        actor_at=(row.actor, row.at),
        tenant_id=row.tenant_id,
        target=str(row.seq),
        detail={"kind": row.kind, "value": row.value, "mode": row.mode, "reason": row.reason},
    )
