"""Reads of the gateway's rows by change sequence, and writes of their vectors; each call under a deadline."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import msgspec
from sqlalchemy import and_, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from policies.encryption import FRESH_BYTES, MasterKeys, field_key, seal_field, vector_place
from policies.questions import Question
from semantic.errors import StoreError
from semantic.rows.backend import Backend, open_backend
from semantic.rows.keys import RowKeys
from semantic.rows.tables import COUNTERS, DELETIONS, ROWS, VECTORS

T = TypeVar("T")

DEADLINE_S = 10.0
_LIVE = "live"
_FAULTS = (SQLAlchemyError, OSError, TimeoutError)
_STAMP = (ROWS.c.row, ROWS.c.changed, ROWS.c.created_at)
_COLUMNS = (*_STAMP, ROWS.c.tenant_id, ROWS.c.family, ROWS.c.partition, ROWS.c.question)
_PAGE_ROWS = 50_000

Stamp = tuple[int, float]
"""Last change and time of writing: what tells a row's state from every other, even in a database brought back."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far the sequence is: `head` is the last change, deletions up to `pruned` are no longer told."""

    head: int
    pruned: int


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A live row.

    Attributes:
        question: None when it cannot be read; such a row is never nominated.
        vectors: what was written for it, by models.
    """

    row: int
    stamp: Stamp
    tenant_id: str
    family: bytes
    partition: bytes
    question: Question | None
    vectors: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened up to a change, all of it; a row is in one of both.

    Attributes:
        gone: rows deleted or quarantined.
    """

    upto: int
    live: Sequence[StoredRow]
    gone: Sequence[int]


class RowStore:
    """The database as the service sees it; belongs to one event loop."""

    def __init__(
        self, backend: Backend, deadline_s: float = DEADLINE_S, masters: MasterKeys | None = None
    ) -> None:
        self._backend = backend
        self._deadline_s = deadline_s
        self._keys = RowKeys(masters)

    @classmethod
    def open(cls, url: str, deadline_s: float = DEADLINE_S, masters: MasterKeys | None = None) -> Self:
        """Opens a database by URL, with the keys of its encryption; errors as for `open_backend`."""
        return cls(open_backend(url, deadline_s), deadline_s, masters)

    def forget_keys(self) -> None:
        """Forgets every data key, so that one that was destroyed opens nothing here either."""
        self._keys.forget()

    async def position(self) -> Position:
        """How far the sequence is.

        Raises:
            StoreError: the database does not answer, or has no such tables yet.
        """

        async def work(connection: AsyncConnection) -> Position:
            found = await connection.execute(select(COUNTERS.c.name, COUNTERS.c.value))
            values = {name: value for name, value in found}  # noqa: C416  (rows are no pairs to the type checker)
            return Position(int(values["semantic"]), int(values.get("semantic_pruned", 0)))

        return await self._read(work)

    async def changes(self, after: int, upto: int, most: int, models: Sequence[str]) -> Changes:
        """What changed after one number and up to another, the oldest first.

        Args:
            after: the change that is known already.
            upto: at most the head that `position` told.
            most: rows and deletions; with more, `Changes.upto` is less than asked for.
            models: whose vectors to read.
        """

        async def work(connection: AsyncConnection) -> Changes:
            last = await _last_of(connection, after, upto, most)
            span = and_(ROWS.c.changed > after, ROWS.c.changed <= last)
            found = (await connection.execute(select(*_COLUMNS, ROWS.c.state).where(span))).all()
            live = await self._stored(connection, [row for row in found if row.state == _LIVE], models)
            span = and_(DELETIONS.c.changed > after, DELETIONS.c.changed <= last)
            gone = list((await connection.execute(select(DELETIONS.c.row).where(span))).scalars())
            gone += [row.row for row in found if row.state != _LIVE]
            return Changes(last, live, gone)

        return await self._read(work)

    async def rows(self, numbers: Sequence[int], models: Sequence[str]) -> list[StoredRow]:
        """The rows with these numbers that are live; at most some hundred numbers."""

        async def work(connection: AsyncConnection) -> list[StoredRow]:
            query = select(*_COLUMNS).where(ROWS.c.row.in_(numbers), ROWS.c.state == _LIVE)
            return await self._stored(connection, (await connection.execute(query)).all(), models)

        return await self._read(work)

    async def _stored(
        self, connection: AsyncConnection, rows: Sequence[Any], models: Sequence[str]
    ) -> list[StoredRow]:
        vectors = await _vectors(connection, [row.row for row in rows], models)
        sealed = [value for of_row in vectors.values() for value in of_row.values()]
        await self._keys.load(connection, [*(row.question for row in rows), *sealed])
        return [_stored(row, vectors.get(row.row, {}), self._keys) for row in rows]

    async def live_rows(self) -> dict[int, Stamp]:
        """Every live row."""
        live: dict[int, Stamp] = {}
        page: Sequence[tuple[int, Stamp]] = [(0, (0, 0.0))]
        while page:
            page = await self._page(after=page[-1][0])
            live.update(page)
        return live

    async def _page(self, after: int) -> list[tuple[int, Stamp]]:
        async def work(connection: AsyncConnection) -> list[tuple[int, Stamp]]:
            query = select(*_STAMP).where(ROWS.c.row > after, ROWS.c.state == _LIVE)
            found = await connection.execute(query.order_by(ROWS.c.row).limit(_PAGE_ROWS))
            return [(row, (changed, created_at)) for row, changed, created_at in found]

        return await self._read(work)

    async def write_vectors(self, vectors: Sequence[tuple[int, str, bytes]]) -> None:
        """Writes (row, models, vector) unless another service has, and unless the row is gone.

        A vector is sealed under the key of its row's question, since it says much the same.
        """

        async def work(connection: AsyncConnection) -> None:
            numbers = {row for row, _, _ in vectors}
            query = select(ROWS.c.row, ROWS.c.tenant_id, ROWS.c.question).where(ROWS.c.row.in_(numbers))
            rows = (await connection.execute(query.with_for_update(read=True))).all()
            await self._keys.load(connection, [row.question for row in rows])
            present = {row.row: row for row in rows}
            values = [
                {"row": row, "models": models, "vector": sealed}
                for row, models, vector in vectors
                if row in present and (sealed := _sealed(present[row], models, vector, self._keys)) is not None
            ]
            if values:
                dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
                await connection.execute(dialect.insert(VECTORS).on_conflict_do_nothing(), values)

        async def transact() -> None:
            async with self._backend.writing() as connection:
                await work(connection)

        await _bounded(transact, self._deadline_s)

    async def close(self) -> None:
        """Closes every connection. Idempotent."""
        await _bounded(self._backend.close, self._deadline_s)

    async def _read(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        async def transact() -> T:
            async with self._backend.engine.begin() as connection:
                return await work(connection)

        return await _bounded(transact, self._deadline_s)


async def _bounded(transact: Callable[[], Awaitable[T]], deadline_s: float) -> T:
    try:
        async with asyncio.timeout(deadline_s):
            return await transact()
    except _FAULTS as error:
        raise StoreError(f"the database does not serve the rows: {_said(error)}") from error


def _said(error: Exception) -> str:
    """The driver's own words, in one line and without the statement."""
    said = str(getattr(error, "orig", None) or error).partition("\n")[0]
    return said or type(error).__name__


async def _last_of(connection: AsyncConnection, after: int, upto: int, most: int) -> int:
    """The number up to which there are at most so many rows, and at most so many deletions."""
    last = upto
    for column in (ROWS.c.changed, DELETIONS.c.changed):
        query = select(column).where(column > after, column <= last).order_by(column)
        found = (await connection.execute(query.offset(most - 1).limit(1))).scalar()
        last = last if found is None else int(found)
    return last


async def _vectors(
    connection: AsyncConnection, rows: Sequence[int], models: Sequence[str]
) -> dict[int, dict[str, bytes]]:
    found: dict[int, dict[str, bytes]] = {}
    if rows:
        query = select(VECTORS.c.row, VECTORS.c.models, VECTORS.c.vector)
        query = query.where(VECTORS.c.row.in_(rows), VECTORS.c.models.in_(models))
        for row, name, vector in await connection.execute(query):
            found.setdefault(row, {})[name] = vector
    return found


def _stored(row: Any, vectors: Mapping[str, bytes], keys: RowKeys) -> StoredRow:
    question = _question(keys.question(row.tenant_id, row.family, row.partition, row.question))
    stamp = (row.changed, row.created_at)
    opened = keys.vectors(row.tenant_id, row.row, vectors)
    return StoredRow(row.row, stamp, row.tenant_id, row.family, row.partition, question, opened)


def _sealed(row: Any, models: str, vector: bytes, keys: RowKeys) -> bytes | None:
    """A vector as it is written; None when its row is encrypted and the key is not to be had."""
    if field_key(row.question) is None:
        return vector
    key = keys.of(row.question)
    if key is None:
        return None
    return seal_field(key, vector_place(row.tenant_id, row.row, models), vector, os.urandom(FRESH_BYTES))


def _question(packed: bytes | None) -> Question | None:
    if packed is None:
        return None
    try:
        question = msgspec.msgpack.decode(packed, type=Question)
    except msgspec.DecodeError:
        return None
    return question if question.turns else None
