"""What an erasure reads and blanks in SQL, and its own rows in the audit."""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Delete, Select, Update, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db import audit
from gateway.db.database import Database
from gateway.db.records import AuditRow, SemanticRow
from gateway.db.tables import (
    API_KEYS,
    AUDIT,
    BUDGET_MARKS,
    BUDGET_STATE,
    COUNTERS,
    OVERRIDES,
    PURGE_LOG,
    SEMANTIC_ROWS,
    SEMANTIC_VECTORS,
    TENANTS,
)
from gateway.db.version_tables import VERSIONS

BEGUN, DONE, FAILED = "erasure.begin", "erasure.done", "erasure.fail"
_ROWS = SEMANTIC_ROWS.c
_SERVED = (
    *(_ROWS.row, _ROWS.tenant_id, _ROWS.family, _ROWS.partition),
    *(_ROWS.question, _ROWS.key, _ROWS.route, _ROWS.sealed, _ROWS.state),
)


@dataclass(frozen=True, slots=True)
class Blanked:
    """How many rows hold something to be erased, and how many were erased."""

    looked_at: int
    found: int


def make_erasure_id() -> str:
    """An id that tells nothing."""
    return "E" + secrets.token_hex(8).upper()


class ErasingRepository:
    """Reads and blanks records of one tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def rows_after(self, tenant_id: str, row: int, limit: int) -> list[SemanticRow]:
        """The tenant's semantic rows above a number, in order."""
        query = select(*_SERVED).where(_ROWS.tenant_id == tenant_id, _ROWS.row > row)
        query = query.order_by(_ROWS.row).limit(limit)

        async def work(connection: AsyncConnection) -> list[SemanticRow]:
            return [SemanticRow(*found) for found in await connection.execute(query)]

        return await self._database.read(work)

    async def vectors_left(self, rows: Sequence[int]) -> int:
        """How many vectors there are of these rows, or of rows that are gone."""
        gone = select(func.count()).where(SEMANTIC_VECTORS.c.row.not_in(select(_ROWS.row)))
        of_rows = select(func.count()).where(SEMANTIC_VECTORS.c.row.in_(rows))
        queries = [gone] if not rows else [gone, of_rows]

        async def work(connection: AsyncConnection) -> int:
            return sum([int((await connection.execute(query)).scalar_one()) for query in queries])

        return await self._database.read(work)

    async def drop_stray_vectors(self) -> int:
        """Deletes vectors of rows that are gone."""
        stray = delete(SEMANTIC_VECTORS).where(SEMANTIC_VECTORS.c.row.not_in(select(_ROWS.row)))

        async def work(connection: AsyncConnection) -> int:
            return (await connection.execute(stray)).rowcount

        return await self._database.write(work)

    async def last_change(self) -> int:
        """The number of the last change to any semantic row."""
        query = select(COUNTERS.c.value).where(COUNTERS.c.name == "semantic")

        async def work(connection: AsyncConnection) -> int:
            return int((await connection.execute(query)).scalar_one())

        return await self._database.read(work)

    async def disable(self, tenant_id: str, now_s: float) -> None:
        """Shuts the tenant out with all its keys."""
        live = (TENANTS.c.id == tenant_id, TENANTS.c.disabled_at.is_(None))
        change = update(TENANTS).where(*live).values(disabled_at=now_s, auth_seq=TENANTS.c.auth_seq + 1)

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(change)

        await self._database.write(work)

    async def blank_tenant(self, tenant_id: str) -> Blanked:
        """Removes what the records say of a tenant but its id, its sequences and the facts of its changes."""
        return await self._blank(_of_tenant(tenant_id))

    async def tenant_left(self, tenant_id: str) -> int:
        """How many rows still say more."""
        return await self._count(_of_tenant(tenant_id))

    async def blank_user(self, tenant_id: str, user: str, digest: str) -> Blanked:
        """Names a user in the purge log by a digest where it named their id; blanks audit rows with either."""
        return await self._blank(_of_user(tenant_id, user, digest))

    async def user_left(self, tenant_id: str, user: str, digest: str) -> int:
        """How many rows still name the user."""
        return await self._count(_of_user(tenant_id, user, digest))

    async def record(
        self,
        action: str,
        tenant_id: str,
        erasure_id: str,
        actor_at: tuple[str, float],
        detail: Mapping[str, object],
    ) -> None:
        """Writes a row of the erasure into the audit; these are never blanked."""

        async def work(connection: AsyncConnection) -> None:
            await audit.record(
                connection, action, actor_at=actor_at, tenant_id=tenant_id, target=erasure_id, detail=detail
            )

        await self._database.write(work)

    async def rows_of(self, erasure_id: str) -> list[AuditRow]:
        """What the audit says of an erasure, in order."""
        query = select(AUDIT).where(AUDIT.c.target == erasure_id, AUDIT.c.action.in_((BEGUN, DONE, FAILED)))

        async def work(connection: AsyncConnection) -> list[AuditRow]:
            return [AuditRow(*row) for row in await connection.execute(query.order_by(AUDIT.c.id))]

        return await self._database.read(work)

    async def ends(self, erasure_ids: Sequence[str]) -> dict[str, AuditRow]:
        """What the audit says of the end of each of these erasures, of those that have ended."""
        rows = AUDIT.c
        query = select(AUDIT).where(rows.target.in_(erasure_ids), rows.action.in_((DONE, FAILED)))

        async def work(connection: AsyncConnection) -> dict[str, AuditRow]:
            found = [AuditRow(*row) for row in await connection.execute(query.order_by(rows.id))]
            return {row.target: row for row in found}

        return await self._database.read(work)

    async def begun(self, tenant_ids: frozenset[str] | None, before: int | None, limit: int) -> list[AuditRow]:
        """Erasures of these tenants, or of all, the latest first, by the row of their beginning."""
        query = select(AUDIT).where(AUDIT.c.action == BEGUN).order_by(AUDIT.c.id.desc()).limit(limit)
        if tenant_ids is not None:
            query = query.where(AUDIT.c.tenant_id.in_(tenant_ids))
        if before is not None:
            query = query.where(AUDIT.c.id < before)

        async def work(connection: AsyncConnection) -> list[AuditRow]:
            return [AuditRow(*row) for row in await connection.execute(query)]

        return await self._database.read(work)

    async def _blank(self, parts: Sequence["_Part"]) -> Blanked:
        async def work(connection: AsyncConnection) -> Blanked:
            looked_at = found = 0
            for part in parts:
                looked_at += int((await connection.execute(part.all)).scalar_one())
                found += (await connection.execute(part.change)).rowcount
            return Blanked(looked_at, found)

        return await self._database.write(work)

    async def _count(self, parts: Sequence["_Part"]) -> int:
        async def work(connection: AsyncConnection) -> int:
            return sum([int((await connection.execute(part.left)).scalar_one()) for part in parts])

        return await self._database.read(work)


@dataclass(frozen=True, slots=True)
class _Part:
    """A table: how many rows there are, how many have something to be erased, and how that is done."""

    all: Select[Any]
    left: Select[Any]
    change: Delete | Update


def _rows_gone(table: Any, which: Any) -> _Part:
    count = select(func.count()).select_from(table).where(which)
    return _Part(count, count, delete(table).where(which))


def _blanked(table: Any, whose: Any, which: Any, values: Mapping[str, str]) -> _Part:
    count = select(func.count()).select_from(table).where(whose)
    return _Part(count, count.where(which), update(table).where(whose, which).values(**values))


def _of_tenant(tenant_id: str) -> list[_Part]:
    log, rows = PURGE_LOG.c, AUDIT.c
    name = f"erased.{tenant_id.lower()}"
    everything = {"kind": "all", "value": "", "reason": ""}
    return [
        _rows_gone(BUDGET_MARKS, BUDGET_MARKS.c.tenant_id == tenant_id),
        _rows_gone(BUDGET_STATE, BUDGET_STATE.c.tenant_id == tenant_id),
        _rows_gone(OVERRIDES, OVERRIDES.c.scope == tenant_id),
        _rows_gone(VERSIONS, VERSIONS.c.scope == tenant_id),
        _rows_gone(API_KEYS, API_KEYS.c.tenant_id == tenant_id),
        _blanked(PURGE_LOG, log.tenant_id == tenant_id, or_(log.kind != "all", log.reason != ""), everything),
        _blanked(
            AUDIT,
            rows.tenant_id == tenant_id,
            (rows.detail != "{}") & rows.action.not_like("erasure.%"),
            {"detail": "{}"},
        ),
        _blanked(TENANTS, TENANTS.c.id == tenant_id, TENANTS.c.name != name, {"name": name}),
    ]


def _of_user(tenant_id: str, user: str, digest: str) -> list[_Part]:
    log, rows = PURGE_LOG.c, AUDIT.c
    mine = (log.tenant_id == tenant_id) & (log.kind == "user")
    needle = json.dumps(user)[1:-1].replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return [
        _blanked(PURGE_LOG, mine, log.value == user, {"value": digest, "reason": ""}),
        _blanked(
            AUDIT,
            rows.tenant_id == tenant_id,
            or_(rows.detail.like(f'%"{needle}"%', escape="\\"), rows.detail.like(f'%"{digest}"%'))
            & rows.action.not_like("erasure.%"),
            {"detail": "{}"},
        ),
    ]
