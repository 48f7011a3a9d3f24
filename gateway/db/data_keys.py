"""Tenants' data keys, wrapped by a master key: made once, retired, re-wrapped, destroyed.

A key that is destroyed leaves its id behind and nothing that opens anything. Every change but re-wrapping, which
changes no data key, moves the tenant's `auth_seq`, so workers read the keys again before the next request.
"""

from collections.abc import Callable, Sequence

from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db import audit
from gateway.db.database import Database
from gateway.db.errors import RecordError
from gateway.db.records import DataKeyRecord
from gateway.db.tables import DATA_KEYS, TENANTS

_KEYS = DATA_KEYS.c
_BATCH = 500

Rewrap = Callable[[DataKeyRecord], tuple[str, bytes] | None]
"""Gives a key wrapped anew as (master id, wrapped), or None when it cannot or need not be; pure."""


class DataKeyRepository:
    """Data keys by tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, tenant_id: str) -> list[DataKeyRecord]:
        """A tenant's keys, the oldest first, destroyed ones too."""
        query = select(DATA_KEYS).where(_KEYS.tenant_id == tenant_id).order_by(_KEYS.created_at, _KEYS.id)

        async def work(connection: AsyncConnection) -> list[DataKeyRecord]:
            return [DataKeyRecord(*row) for row in await connection.execute(query)]

        return await self._database.read(work)

    async def all(self) -> list[DataKeyRecord]:
        """Every key, by tenant."""
        query = select(DATA_KEYS).order_by(_KEYS.tenant_id, _KEYS.created_at, _KEYS.id)

        async def work(connection: AsyncConnection) -> list[DataKeyRecord]:
            return [DataKeyRecord(*row) for row in await connection.execute(query)]

        return await self._database.read(work)

    async def add(self, record: DataKeyRecord, actor: str, *, replacing: bool = False) -> bool:
        """Makes a key the tenant's current one; false when it has one already, or is disabled.

        Args:
            record: the key; its `created_at` is now.
            actor: for the audit.
            replacing: retires the current one instead; it still opens what it sealed.

        Raises:
            RecordError: not_found, when `replacing` and the tenant is gone or disabled.
        """

        async def work(connection: AsyncConnection) -> bool:
            # the tenant's row is locked first, so two workers never make a key each
            if not await _bump(connection, record.tenant_id):
                if replacing:
                    raise RecordError("not_found", f"there is no live tenant {record.tenant_id[:80]!r}")
                return False
            current = (_KEYS.tenant_id == record.tenant_id, _KEYS.retired_at.is_(None))
            if replacing:
                await connection.execute(update(DATA_KEYS).where(*current).values(retired_at=record.created_at))
            elif (await connection.execute(select(_KEYS.id).where(*current))).first() is not None:
                return False
            await connection.execute(insert(DATA_KEYS).values(_values(record)))
            await _told(connection, "data_key.create", record, actor, record.created_at)
            return True

        return await self._database.write(work)

    async def destroy(self, tenant_id: str, actor: str, now_s: float) -> list[DataKeyRecord]:
        """Destroys every key of the tenant that is left; returns them as they are now, without what opened them.

        Raises:
            DatabaseUnavailable: see `Database.write`; doing it again is harmless.
        """

        async def work(connection: AsyncConnection) -> list[DataKeyRecord]:
            await connection.execute(
                update(TENANTS).where(TENANTS.c.id == tenant_id).values(auth_seq=TENANTS.c.auth_seq + 1)
            )
            which = (_KEYS.tenant_id == tenant_id, _KEYS.destroyed_at.is_(None))
            left = [DataKeyRecord(*row) for row in await connection.execute(select(DATA_KEYS).where(*which))]
            await connection.execute(
                update(DATA_KEYS).where(*which, _KEYS.retired_at.is_(None)).values(retired_at=now_s)
            )
            await connection.execute(update(DATA_KEYS).where(*which).values(wrapped=None, destroyed_at=now_s))
            for record in left:
                await _told(connection, "data_key.destroy", record, actor, now_s)
            query = select(DATA_KEYS).where(_KEYS.tenant_id == tenant_id).order_by(_KEYS.created_at, _KEYS.id)
            return [DataKeyRecord(*row) for row in await connection.execute(query)]

        return await self._database.write(work)

    async def rewrap(self, rewrap: Rewrap, actor: str, now_s: float) -> int:
        """Wraps every key anew, in transactions of 500; returns how many were changed. May be done again."""
        ids = [record.key_id for record in await self.all() if record.wrapped is not None]
        done = 0
        for at in range(0, len(ids), _BATCH):
            done += await self._rewrap_some(ids[at : at + _BATCH], rewrap, (actor, now_s))
        return done

    async def _rewrap_some(self, ids: Sequence[str], rewrap: Rewrap, actor_at: tuple[str, float]) -> int:
        async def work(connection: AsyncConnection) -> int:
            query = select(DATA_KEYS).where(_KEYS.id.in_(ids), _KEYS.wrapped.is_not(None)).with_for_update()
            changed = 0
            for row in (await connection.execute(query)).all():
                record = DataKeyRecord(*row)
                wrapped = rewrap(record)
                if wrapped is not None:
                    values = {"master_id": wrapped[0], "wrapped": wrapped[1]}
                    await connection.execute(update(DATA_KEYS).where(_KEYS.id == record.key_id).values(values))
                    await _told(connection, "data_key.rewrap", record, *actor_at)
                    changed += 1
            return changed

        return await self._database.write(work)


def _values(record: DataKeyRecord) -> dict[str, object]:
    return {
        "id": record.key_id,
        "tenant_id": record.tenant_id,
        "wrapped": record.wrapped,
        "master_id": record.master_id,
        "created_at": record.created_at,
    }


async def _bump(connection: AsyncConnection, tenant_id: str) -> bool:
    live = (TENANTS.c.id == tenant_id, TENANTS.c.disabled_at.is_(None))
    moved = await connection.execute(update(TENANTS).where(*live).values(auth_seq=TENANTS.c.auth_seq + 1))
    return moved.rowcount == 1


async def _told(connection: AsyncConnection, action: str, record: DataKeyRecord, actor: str, now_s: float) -> None:
    await audit.record(
        connection,
        action,
        actor_at=(actor, now_s),
        tenant_id=record.tenant_id,
        target=record.key_id,
        detail={},
    )
