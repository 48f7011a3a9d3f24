"""A migrated database with one tenant, and rows in it as the gateway writes them."""

import hashlib
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db import Database, NewRow, SemanticRows, TenantRepository
from gateway.db.tables import SEMANTIC_ROWS, SEMANTIC_VECTORS
from policies.questions import Question, Turn
from tests.servers.sqlite import open_migrated


def digest(name: str) -> bytes:
    """32 bytes that stand for a name."""
    return hashlib.sha256(name.encode()).digest()


def single(text: str) -> Question:
    """A question without a history."""
    return Question((("user", text),))


def talk(*texts: str) -> Question:
    """A conversation that user and assistant say in turns; the last is the user's."""
    roles = ("user", "assistant") if len(texts) % 2 else ("assistant", "user")
    turns: tuple[Turn, ...] = tuple(zip(itertools.cycle(roles), texts, strict=False))
    return Question(turns)


def partition_of(question: Question, family: str) -> bytes:
    """The partition of a question: its family and its history."""
    return digest(repr((family, question.history)))


class Rows:
    """The tables as the gateway sees them."""

    def __init__(self, database: Database, tenant_id: str) -> None:
        self.database = database
        self.tenant_id = tenant_id
        self.table = SemanticRows(database)
        self._clock = itertools.count(1)

    async def put(self, questions: Sequence[Question], family: str = "family") -> int:
        """Writes rows; returns the last change."""
        now_s = 1000.0 + next(self._clock)
        rows = [
            NewRow(
                tenant_id=self.tenant_id,
                family=digest(family),
                partition=partition_of(question, family),
                asked=digest(question.text),
                question=msgspec.msgpack.encode(question),
                key=digest(question.text),
                route="m",
                sealed=b"sealed",
                as_of=0,
                created_at=now_s,
                expires_at=now_s + 1e9,
            )
            for question in questions
        ]
        return await self.table.put(rows)

    async def numbers(self) -> dict[str, int]:
        """Row numbers by the text of the last turn, of live rows."""

        async def work(connection: AsyncConnection) -> dict[str, int]:
            columns = SEMANTIC_ROWS.c
            query = select(columns.row, columns.question).where(columns.state == "live")
            found = await connection.execute(query)
            return {msgspec.msgpack.decode(packed, type=Question).text: row for row, packed in found}

        return await self.database.read(work)

    async def vectors(self) -> dict[tuple[int, str], bytes]:
        """Written vectors by row and models."""

        async def work(connection: AsyncConnection) -> dict[tuple[int, str], bytes]:
            found = await connection.execute(select(SEMANTIC_VECTORS))
            return {(row.row, row.models): row.vector for row in found}

        return await self.database.read(work)


@asynccontextmanager
async def migrated(url: str) -> AsyncIterator[Rows]:
    """Migrates an empty database and adds a tenant."""
    database = await open_migrated(url)
    try:
        tenant = await TenantRepository(database).create("acme", "test", 1000.0)
        yield Rows(database, tenant.tenant_id)
    finally:
        await database.close()
