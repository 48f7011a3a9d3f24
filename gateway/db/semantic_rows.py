"""Rows of the semantic layer: every change takes the next number of one sequence, in the change's transaction.

Numbers become visible in the order of commits, since the counter's row is locked until then. A follower reads the
counter first, then the changes above what it has seen and up to that number: rows and deletions read one after the
other without that bound may be of two moments, and a change between them would be lost.
"""

from collections.abc import Iterable, Sequence

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db.database import Database
from gateway.db.records import NewRow, SemanticRow
from gateway.db.tables import COUNTERS, PURGE_LOG, SEMANTIC_DELETIONS, SEMANTIC_ROWS, SEMANTIC_VECTORS

_ROWS = SEMANTIC_ROWS.c
_PLACE = (_ROWS.family, _ROWS.partition, _ROWS.question)
_SERVED = (_ROWS.row, _ROWS.tenant_id, *_PLACE, _ROWS.key, _ROWS.route, _ROWS.sealed, _ROWS.state)
_MOST_OF_KEYS = 100
LIVE, QUARANTINED = "live", "quarantined"


class SemanticRows:
    """Writes rows, reads them by number, and removes those that can serve no more."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, rows: Sequence[NewRow]) -> int:
        """Stores rows in one transaction; one asked before in the same partition replaces the older answer.

        An answer older than the stored one, or than its quarantine, changes nothing.

        Returns:
            The number of the last change.

        Raises:
            DatabaseUnavailable: see `Database.write`; doing it again is harmless.
        """
        latest = {(row.partition, row.asked): row for row in rows}

        async def work(connection: AsyncConnection) -> int:
            last = await _take(connection, len(latest))
            known = await _known(connection, latest.values())
            numbers = range(last - len(latest) + 1, last + 1)
            for number, (place, row) in zip(numbers, latest.items(), strict=True):
                number_at, created_at = known.get(place, (None, 0.0))
                if number_at is None:
                    values = {"row": number, "changed": number, **_values(row)}
                    await connection.execute(insert(SEMANTIC_ROWS).values(values))
                elif row.created_at >= created_at:
                    values = {"changed": number, **_values(row)}
                    await connection.execute(update(SEMANTIC_ROWS).where(_ROWS.row == number_at).values(values))
            return last

        return await self._database.write(work)

    async def find(self, rows: Sequence[int]) -> dict[int, SemanticRow]:
        """Reads rows by number; those that are gone are left out."""

        async def work(connection: AsyncConnection) -> dict[int, SemanticRow]:
            found = await connection.execute(select(*_SERVED).where(_ROWS.row.in_(rows)))
            return {row.row: SemanticRow(*row) for row in found}

        return await self._database.read(work)

    async def of_keys(self, tenant_id: str, keys: Sequence[bytes]) -> list[SemanticRow]:
        """The tenant's rows whose own exact key is one of these."""

        async def work(connection: AsyncConnection) -> list[SemanticRow]:
            query = select(*_SERVED).where(_ROWS.tenant_id == tenant_id, _ROWS.key.in_(keys))
            return [SemanticRow(*row) for row in await connection.execute(query.limit(_MOST_OF_KEYS))]

        return await self._database.read(work)

    async def quarantine(self, tenant_id: str, rows: Sequence[int], now_s: float) -> int:
        """Takes rows of the tenant out of service; a fresh answer to the same question puts them back.

        Returns:
            How many were live.

        Raises:
            DatabaseUnavailable: see `Database.write`; doing it again is harmless.
        """
        which = (_ROWS.tenant_id == tenant_id, _ROWS.state == LIVE)

        async def work(connection: AsyncConnection) -> int:
            last = await _take(connection, len(rows))
            done = 0
            for number, row in zip(range(last - len(rows) + 1, last + 1), rows, strict=True):
                values = {"state": QUARANTINED, "changed": number, "created_at": now_s}
                one = update(SEMANTIC_ROWS).where(_ROWS.row == row, *which).values(values)
                done += (await connection.execute(one)).rowcount
            return done

        return await self._database.write(work)

    async def remove(self, tenant_id: str, rows: Sequence[int]) -> int:
        """Deletes rows of the tenant; returns how many there were.

        Raises:
            DatabaseUnavailable: see `Database.write`; doing it again is harmless.
        """

        async def work(connection: AsyncConnection) -> int:
            await _take(connection, 0)
            mine = select(_ROWS.row).where(_ROWS.tenant_id == tenant_id, _ROWS.row.in_(rows))
            return await _delete(connection, list((await connection.execute(mine)).scalars()))

        return await self._database.write(work)

    async def sweep(self, now_s: float, quota: int, batch: int = 500) -> int:
        """Deletes at most `batch` rows that can serve no more: expired, purged with all else, or over the quota.

        Idempotent, and harmless when several processes do it.

        Args:
            now_s: seconds since the epoch.
            quota: most rows a tenant may keep; the oldest go first.
            batch: bounds one transaction.

        Returns:
            How many were deleted; fewer than `batch` when none is left.
        """

        async def look(connection: AsyncConnection) -> list[int]:
            found = await _expired(connection, now_s, batch)
            found += await _purged(connection, batch - len(found))
            return found + await _over_quota(connection, quota, batch - len(found))

        dead = await self._database.read(look)
        if not dead:
            return 0

        async def work(connection: AsyncConnection) -> int:
            await _take(connection, 0)  # before the second look, so that nothing is renewed behind it
            return await _delete(connection, await look(connection))

        return await self._database.write(work)

    async def forget_deletions(self, keep: int) -> None:
        """Forgets which rows were deleted more than `keep` changes ago.

        The counter `semantic_pruned` says up to where: whoever has seen less must read all rows anew.
        """

        async def work(connection: AsyncConnection) -> None:
            head = await connection.execute(select(COUNTERS.c.value).where(COUNTERS.c.name == "semantic"))
            upto = max(0, head.scalar_one() - keep)
            gone = await connection.execute(delete(SEMANTIC_DELETIONS).where(SEMANTIC_DELETIONS.c.changed <= upto))
            if gone.rowcount:
                which = (COUNTERS.c.name == "semantic_pruned", COUNTERS.c.value < upto)
                await connection.execute(update(COUNTERS).where(*which).values(value=upto))

        await self._database.write(work)


def _values(row: NewRow) -> dict[str, object]:
    return {
        "tenant_id": row.tenant_id,
        "family": row.family,
        "partition": row.partition,
        "asked": row.asked,
        "question": row.question,
        "key": row.key,
        "route": row.route,
        "sealed": row.sealed,
        "as_of": row.as_of,
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "state": LIVE,
    }


async def _take(connection: AsyncConnection, count: int) -> int:
    """Takes the next `count` numbers and returns the last; keeps every other writer out until the commit."""
    step = update(COUNTERS).where(COUNTERS.c.name == "semantic").values(value=COUNTERS.c.value + count)
    taken: int = (await connection.execute(step.returning(COUNTERS.c.value))).scalar_one()
    return taken


async def _known(
    connection: AsyncConnection, rows: Iterable[NewRow]
) -> dict[tuple[bytes, bytes], tuple[int, float]]:
    """Number and time of the stored rows with the same partition and question."""
    rows = list(rows)
    query = select(_ROWS.partition, _ROWS.asked, _ROWS.row, _ROWS.created_at).where(
        _ROWS.partition.in_({row.partition for row in rows}), _ROWS.asked.in_({row.asked for row in rows})
    )
    found = await connection.execute(query)
    return {(partition, asked): (row, created_at) for partition, asked, row, created_at in found}


async def _expired(connection: AsyncConnection, now_s: float, limit: int) -> list[int]:
    query = select(_ROWS.row).where(_ROWS.expires_at < now_s).order_by(_ROWS.expires_at).limit(limit)
    return list((await connection.execute(query)).scalars())


async def _purged(connection: AsyncConnection, limit: int) -> list[int]:
    """Rows from before their tenant's latest hard purge of everything."""
    log = PURGE_LOG.c
    latest = (
        select(log.tenant_id, func.max(log.seq).label("seq"))
        .where(log.kind == "all", log.mode == "hard")
        .group_by(log.tenant_id)
        .subquery()
    )
    query = select(_ROWS.row).join(latest, latest.c.tenant_id == _ROWS.tenant_id)
    found = await connection.execute(query.where(_ROWS.as_of < latest.c.seq).limit(limit))
    return list(found.scalars())


async def _over_quota(connection: AsyncConnection, quota: int, limit: int) -> list[int]:
    count = func.count()
    crowded = select(_ROWS.tenant_id, count).group_by(_ROWS.tenant_id).having(count > quota)
    found: list[int] = []
    for tenant_id, rows in list(await connection.execute(crowded)):
        surplus = min(rows - quota, limit - len(found))
        oldest = select(_ROWS.row).where(_ROWS.tenant_id == tenant_id).order_by(_ROWS.created_at, _ROWS.row)
        found += (await connection.execute(oldest.limit(surplus))).scalars()
    return found


async def _delete(connection: AsyncConnection, rows: Sequence[int]) -> int:
    """Deletes rows with their vectors, each under a number of its own."""
    rows = sorted(set(rows))
    last = await _take(connection, len(rows))
    if not rows:
        return 0
    await connection.execute(delete(SEMANTIC_ROWS).where(_ROWS.row.in_(rows)))
    await connection.execute(delete(SEMANTIC_VECTORS).where(SEMANTIC_VECTORS.c.row.in_(rows)))
    numbers = range(last - len(rows) + 1, last + 1)
    gone = [{"changed": number, "row": row} for number, row in zip(numbers, rows, strict=True)]
    await connection.execute(insert(SEMANTIC_DELETIONS), gone)
    return len(rows)
