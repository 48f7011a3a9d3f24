"""The ledger's sums in SQL: each batch of a worker is added once, however often it is sent."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Table, and_, case, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db.database import Database
from gateway.db.ledger_tables import LEDGER, LEDGER_FLUSHES
from policies.ledger import FIGURES, Key, Tally

DIMENSIONS = ("day", "tenant_id", "route", "provider", "model", "layer")
"""What sums may be told apart by."""

_DAY_S = 86_400
_WORKERS_REMEMBERED_S = 7 * _DAY_S
_MOST = 9 * 10**18
"""Where a sum stays when it would no longer fit: nine million dollars of one key in one day."""
_LEAST = -(10**17)
_COLUMNS = LEDGER.c
_FLUSHES = LEDGER_FLUSHES.c

_Upsert = Callable[[Table], sqlite.Insert] | Callable[[Table], postgresql.Insert]
_INSERTS: dict[str, _Upsert] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


@dataclass(frozen=True, slots=True)
class Batch:
    """What a worker has counted since its last batch.

    Attributes:
        worker: one worker's one life.
        number: rises by one with each of its batches.
    """

    worker: str
    number: int
    sums: Mapping[Key, Tally]


@dataclass(frozen=True, slots=True)
class LedgerQuery:
    """Which sums are wanted.

    Attributes:
        first_day, last_day: YYYY-MM-DD, both included.
        by: names of DIMENSIONS to tell apart.
        tenants: only these; None for all.
    """

    first_day: str
    last_day: str
    by: tuple[str, ...] = ()
    tenants: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """Sums of one group.

    Attributes:
        group: the values of `by`, by name.
        figures: by the names of FIGURES.
    """

    group: Mapping[str, str]
    figures: Mapping[str, int]


class LedgerRepository:
    """Adds batches and reads sums."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, batch: Batch, now_s: float) -> bool:
        """Adds a batch, unless it, or a later one of this worker, was added before.

        May be done again after a failure, also while an earlier try may still be under way: the worker's row lets
        one of them through.

        Returns:
            Whether this call added it.

        Raises:
            DatabaseUnavailable: see `Database.write`; do it again.
        """
        upsert = _INSERTS[self._database.dialect]
        mark = upsert(LEDGER_FLUSHES).values(worker=batch.worker, number=batch.number, at=now_s)
        fresh = mark.on_conflict_do_update(
            index_elements=["worker"],
            set_={"number": batch.number, "at": now_s},
            where=_FLUSHES.number < batch.number,
        )
        row = upsert(LEDGER)
        more = {name: _added(_COLUMNS[name], row.excluded[name]) for name in FIGURES}
        add = row.on_conflict_do_update(index_elements=DIMENSIONS, set_=more)
        rows = [_values(key, tally) for key, tally in sorted(batch.sums.items())]

        async def work(connection: AsyncConnection) -> bool:
            if (await connection.execute(fresh)).rowcount < 1:
                return False
            if rows:
                await connection.execute(add, rows)
            return True

        return await self._database.write(work)

    async def read(self, query: LedgerQuery) -> list[LedgerRow]:
        """The sums by group, in the order of the group's values.

        Raises:
            DatabaseUnavailable: see `Database.read`.
        """
        groups = [_COLUMNS[name] for name in query.by]
        wanted = and_(_COLUMNS.day >= query.first_day, _COLUMNS.day <= query.last_day)
        if query.tenants is not None:
            wanted = and_(wanted, _COLUMNS.tenant_id.in_(sorted(query.tenants)))
        sums = [func.sum(_COLUMNS[name]) for name in FIGURES]
        statement = select(*groups, *sums).where(wanted).group_by(*groups).order_by(*groups)

        async def work(connection: AsyncConnection) -> list[LedgerRow]:
            return [_row(query.by, row) for row in await connection.execute(statement) if row[-1] is not None]

        return await self._database.read(work)

    async def forget(self, first_day: str, now_s: float) -> int:
        """Deletes the sums of days before this one, and workers long gone; returns how many sums."""
        old = _COLUMNS.day < first_day
        gone = _FLUSHES.at < now_s - _WORKERS_REMEMBERED_S

        async def work(connection: AsyncConnection) -> int:
            await connection.execute(delete(LEDGER_FLUSHES).where(gone))
            return (await connection.execute(delete(LEDGER).where(old))).rowcount

        return await self._database.write(work)


def day_of(day: int) -> str:
    """A day since 1970 as YYYY-MM-DD."""
    return datetime.fromtimestamp(day * _DAY_S, UTC).strftime("%Y-%m-%d")


def _values(key: Key, tally: Sequence[int]) -> dict[str, object]:
    names = dict(zip(DIMENSIONS, (day_of(key.day), *key[1:]), strict=True))
    return {**names, **{name: max(_LEAST, min(value, _MOST)) for name, value in zip(FIGURES, tally, strict=True)}}


def _added(now: ColumnElement[int], more: ColumnElement[int]) -> ColumnElement[int]:
    return case((now > _MOST - more, _MOST), else_=now + more)


def _row(by: tuple[str, ...], row: Sequence[object]) -> LedgerRow:
    group = {name: str(value) for name, value in zip(by, row, strict=False)}
    figures = [int(value) for value in row[len(by) :]]  # type: ignore[call-overload]  # PostgreSQL sums to Decimal
    return LedgerRow(group, dict(zip(FIGURES, figures, strict=True)))
