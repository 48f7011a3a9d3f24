"""What the error budget has seen and come to: labels, and the guard's state per tenant, route and models."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import ColumnElement, Table, and_, delete, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db.database import Database
from gateway.db.tables import BUDGET_MARKS, BUDGET_STATE

_MARKS = BUDGET_MARKS.c
_STATE = BUDGET_STATE.c
_READ = (
    _MARKS.id,
    _MARKS.tenant_id,
    _MARKS.route,
    _MARKS.models,
    _MARKS.row,
    _MARKS.score,
    _MARKS.right,
    _MARKS.how,
    _MARKS.share,
    _MARKS.at,
)
_Upsert = Callable[[Table], sqlite.Insert] | Callable[[Table], postgresql.Insert]
_INSERTS: dict[str, _Upsert] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


@dataclass(frozen=True, slots=True)
class PoolName:
    """Whose labels count together: those of one tenant and route, under one fingerprint of the models."""

    tenant_id: str
    route: str
    models: str


@dataclass(frozen=True, slots=True)
class MarkRow:
    """A label.

    Attributes:
        number: rises, though rows of two writers may become visible in another order; 0 before it is stored.
        row: the semantic row it is of.
        score: see policies.budget.score_of.
        how: `audit` (compared by the gateway), `feedback` or `warm`.
        share: the probability with which it was drawn at random; None for a label that the rule asked for.
        at: seconds since the epoch.
    """

    number: int
    pool: PoolName
    row: int | None
    score: float
    right: bool
    how: str
    share: float | None
    at: float


@dataclass(frozen=True, slots=True)
class StateRow:
    """Where a guard stands.

    Attributes:
        caution, reason: see policies.budget.
        since: when it came there, seconds since the epoch.
        mark: number of the last label that counted towards it.
        asked, would, served: since then: requests that came to the layer, would-be hits, hits.
    """

    pool: PoolName
    caution: str
    reason: str
    since: float
    mark: int
    asked: float
    would: float
    served: float


@dataclass(frozen=True, slots=True)
class Counted:
    """What one worker adds to a state's counts."""

    pool: PoolName
    asked: int
    would: int
    served: int


class BudgetRepository:
    """Appends labels, reads them in order, and keeps the guards' states."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, marks: Sequence[MarkRow]) -> None:
        """Appends labels; their own numbers are ignored.

        Raises:
            DatabaseUnavailable: see `Database.write`; doing it again may count them twice.
        """
        rows = [_values(mark) for mark in marks]

        async def work(connection: AsyncConnection) -> None:
            if rows:
                await connection.execute(insert(BUDGET_MARKS), rows)

        await self._database.write(work)

    async def newest(self, pool: PoolName, limit: int) -> list[MarkRow]:
        """The pool's newest labels, oldest first."""
        which = and_(_MARKS.tenant_id == pool.tenant_id, _MARKS.route == pool.route, _MARKS.models == pool.models)
        query = select(*_READ).where(which).order_by(_MARKS.id.desc()).limit(limit)

        async def work(connection: AsyncConnection) -> list[MarkRow]:
            return [_mark(row) for row in await connection.execute(query)][::-1]

        return await self._database.read(work)

    async def after(self, number: int, limit: int) -> list[MarkRow]:
        """Labels of every pool numbered above this, ascending."""
        query = select(*_READ).where(_MARKS.id > number).order_by(_MARKS.id).limit(limit)

        async def work(connection: AsyncConnection) -> list[MarkRow]:
            return [_mark(row) for row in await connection.execute(query)]

        return await self._database.read(work)

    async def told(self, tenants: frozenset[str] | None, limit: int, before: int | None) -> list[MarkRow]:
        """Labels that came of feedback, the newest first; of these tenants, or of all."""
        query = select(*_READ).where(_MARKS.how == "feedback").order_by(_MARKS.id.desc()).limit(limit)
        if tenants is not None:
            query = query.where(_MARKS.tenant_id.in_(sorted(tenants)))
        if before is not None:
            query = query.where(_MARKS.id < before)

        async def work(connection: AsyncConnection) -> list[MarkRow]:
            return [_mark(row) for row in await connection.execute(query)]

        return await self._database.read(work)

    async def head(self) -> int:
        """The highest number of a label; 0 when there is none."""

        async def work(connection: AsyncConnection) -> int:
            return int((await connection.execute(select(func.coalesce(func.max(_MARKS.id), 0)))).scalar_one())

        return await self._database.read(work)

    async def states(self) -> dict[PoolName, StateRow]:
        """Every guard's state."""

        async def work(connection: AsyncConnection) -> dict[PoolName, StateRow]:
            rows = [_state(row) for row in await connection.execute(select(*_STATE))]
            return {row.pool: row for row in rows}

        return await self._database.read(work)

    async def count(self, counted: Sequence[Counted], now_s: float) -> None:
        """Adds to the counts of states, made anew where there is none.

        Raises:
            DatabaseUnavailable: see `Database.write`; doing it again counts twice.
        """
        upsert = _INSERTS[self._database.dialect]

        async def work(connection: AsyncConnection) -> None:
            for one in counted:
                fresh = StateRow(one.pool, "normal", "new", now_s, 0, one.asked, one.would, one.served)
                more = {
                    "asked": _STATE.asked + one.asked,
                    "would": _STATE.would + one.would,
                    "served": _STATE.served + one.served,
                }
                row = upsert(BUDGET_STATE).values(_state_values(fresh))
                await connection.execute(row.on_conflict_do_update(index_elements=_KEY, set_=more))

        await self._database.write(work)

    async def step(self, before: StateRow, caution: str, reason: str, mark: int, now_s: float) -> bool:
        """Moves a guard on, unless another worker has done so since `before` was read; its counts begin anew.

        Returns:
            Whether this call moved it.
        """
        fresh = replace(before, caution=caution, reason=reason, since=now_s, mark=mark, asked=0, would=0, served=0)
        unmoved = and_(_named(before.pool), _STATE.caution == before.caution, _STATE.mark == before.mark)

        async def work(connection: AsyncConnection) -> bool:
            done = await connection.execute(update(BUDGET_STATE).where(unmoved).values(_state_values(fresh)))
            return done.rowcount > 0

        return await self._database.write(work)

    async def forget(self, before_s: float) -> int:
        """Deletes labels older than this; returns how many."""

        async def work(connection: AsyncConnection) -> int:
            return (await connection.execute(delete(BUDGET_MARKS).where(_MARKS.at < before_s))).rowcount

        return await self._database.write(work)


_KEY = ("tenant_id", "route", "models")


def _named(pool: PoolName) -> ColumnElement[bool]:
    return and_(_STATE.tenant_id == pool.tenant_id, _STATE.route == pool.route, _STATE.models == pool.models)


def _values(mark: MarkRow) -> dict[str, object]:
    return {
        "tenant_id": mark.pool.tenant_id,
        "route": mark.pool.route,
        "models": mark.pool.models,
        "row": mark.row,
        "score": mark.score,
        "right": mark.right,
        "how": mark.how,
        "share": mark.share,
        "at": mark.at,
    }


def _state_values(state: StateRow) -> dict[str, object]:
    return {
        "tenant_id": state.pool.tenant_id,
        "route": state.pool.route,
        "models": state.pool.models,
        "caution": state.caution,
        "reason": state.reason,
        "since": state.since,
        "mark": state.mark,
        "asked": state.asked,
        "would": state.would,
        "served": state.served,
    }


def _mark(row: Sequence[object]) -> MarkRow:
    number, tenant_id, route, models, *rest = row
    return MarkRow(number, PoolName(tenant_id, route, models), *rest)  # type: ignore[arg-type]


def _state(row: Sequence[object]) -> StateRow:
    tenant_id, route, models, *rest = row
    return StateRow(PoolName(tenant_id, route, models), *rest)  # type: ignore[arg-type]
