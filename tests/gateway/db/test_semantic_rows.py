"""Semantic rows: changes are numbered without loss, so whoever follows the numbers holds what the table holds."""

import asyncio
import hashlib
import random
from dataclasses import replace

import pytest
from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db import Database, NewRow, PurgeRepository, SemanticRows, TenantRecord, TenantRepository
from gateway.db.tables import COUNTERS, SEMANTIC_DELETIONS, SEMANTIC_ROWS, SEMANTIC_VECTORS

ROUNDS, WRITERS = 12, 4


def new_row(tenant_id: str, text: str, created_at: float = 1000.0, life_s: float = 100.0) -> NewRow:
    """A row whose question is `text`."""
    asked = hashlib.sha256(text.encode()).digest()
    place = b"p" * 32
    return NewRow(
        tenant_id, place, place, asked, text.encode(), asked, "m", b"sealed", 0, created_at, created_at + life_s
    )


class Follower:
    """Holds what it has read of the numbered changes, as an index does."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.rows: dict[int, bytes] = {}
        self.reached = 0

    async def catch_up(self) -> None:
        """Reads everything above what it has seen."""
        rows, gone = SEMANTIC_ROWS.c, SEMANTIC_DELETIONS.c

        async def work(connection: AsyncConnection) -> tuple[int, list[tuple[int, int, bytes | None]]]:
            head = await connection.execute(select(COUNTERS.c.value).where(COUNTERS.c.name == "semantic"))
            reached = head.scalar_one()
            window = self.reached + 1, reached
            changed = await connection.execute(
                select(rows.changed, rows.row, rows.question).where(rows.changed.between(*window))
            )
            deleted = await connection.execute(select(gone.changed, gone.row).where(gone.changed.between(*window)))
            return reached, [(*row,) for row in changed] + [(*row, None) for row in deleted]

        self.reached, changes = await self._database.read(work)
        for _, row, question in sorted(changes, key=lambda change: change[0]):
            if question is None:
                self.rows.pop(row, None)
            else:
                self.rows[row] = question


async def table(database: Database) -> dict[int, bytes]:
    async def work(connection: AsyncConnection) -> dict[int, bytes]:
        found = await connection.execute(select(SEMANTIC_ROWS.c.row, SEMANTIC_ROWS.c.question))
        return {row.row: row.question for row in found}

    return await database.read(work)


async def test_the_same_question_asked_again_replaces_its_answer(database: Database, tenant: TenantRecord) -> None:
    rows = SemanticRows(database)
    await rows.put([new_row(tenant.tenant_id, "one")])
    (number,) = await table(database)
    last = await rows.put([replace(new_row(tenant.tenant_id, "one", 1001.0), sealed=b"newer")])
    found = await rows.find([number, 999])
    assert list(found) == [number]
    assert found[number].sealed == b"newer"
    assert last > number
    await rows.put([replace(new_row(tenant.tenant_id, "one", 900.0), sealed=b"older")])
    assert (await rows.find([number]))[number].sealed == b"newer"


async def test_one_batch_may_hold_a_question_twice(database: Database, tenant: TenantRecord) -> None:
    await SemanticRows(database).put([new_row(tenant.tenant_id, "one"), new_row(tenant.tenant_id, "one", 1001.0)])
    assert len(await table(database)) == 1


async def test_quarantine_ends_with_a_fresh_answer_and_not_with_a_late_one(
    database: Database, tenant: TenantRecord
) -> None:
    rows = SemanticRows(database)
    await rows.put([new_row(tenant.tenant_id, "one")])
    (number,) = await table(database)
    other = await TenantRepository(database).create("other", "test", 1.0)
    assert await rows.quarantine(other.tenant_id, [number], 1010.0) == 0
    assert await rows.quarantine(tenant.tenant_id, [number], 1010.0) == 1
    assert await rows.quarantine(tenant.tenant_id, [number], 1010.0) == 0
    await rows.put([new_row(tenant.tenant_id, "one", 1009.0)])
    assert (await rows.find([number]))[number].state == "quarantined"
    await rows.put([new_row(tenant.tenant_id, "one", 1011.0)])
    assert (await rows.find([number]))[number].state == "live"


async def test_removed_rows_leave_with_their_vectors_and_only_by_their_tenant(
    database: Database, tenant: TenantRecord
) -> None:
    rows = SemanticRows(database)
    await rows.put([new_row(tenant.tenant_id, "one")])
    (number,) = await table(database)

    async def embed(connection: AsyncConnection) -> None:
        await connection.execute(insert(SEMANTIC_VECTORS).values(row=number, models="m", vector=b"v"))

    async def vectors(connection: AsyncConnection) -> int:
        return len((await connection.execute(select(SEMANTIC_VECTORS.c.row))).all())

    await database.write(embed)
    other = await TenantRepository(database).create("other", "test", 1.0)
    assert await rows.remove(other.tenant_id, [number]) == 0
    assert await rows.remove(tenant.tenant_id, [number]) == 1
    assert await rows.remove(tenant.tenant_id, [number]) == 0
    assert await table(database) == {}
    assert await database.read(vectors) == 0


async def test_the_sweep_removes_what_can_serve_no_more(database: Database, tenant: TenantRecord) -> None:
    rows, purges = SemanticRows(database), PurgeRepository(database)
    mine = tenant.tenant_id
    await rows.put([new_row(mine, f"{number}", 1000.0 + number) for number in range(10)])
    assert await rows.sweep(1101.5, 100) == 2
    assert await rows.sweep(1101.5, 5, batch=2) == 2
    assert await rows.sweep(1101.5, 5, batch=2) == 1
    assert await rows.sweep(1101.5, 5, batch=2) == 0
    assert sorted((await table(database)).values()) == [b"5", b"6", b"7", b"8", b"9"]
    await purges.append(mine, "all", "", "soft", "test", "", 1.0)
    assert await rows.sweep(1101.5, 5) == 0
    await purges.append(mine, "all", "", "hard", "test", "", 1.0)
    await rows.put([replace(new_row(mine, "after"), as_of=2)])
    assert await rows.sweep(1050.0, 100) == 5
    assert list((await table(database)).values()) == [b"after"]


async def test_forgotten_deletions_are_told(database: Database, tenant: TenantRecord) -> None:
    rows = SemanticRows(database)
    await rows.put([new_row(tenant.tenant_id, "one")])
    await rows.sweep(9999.0, 100)
    before = await floor(database)
    await rows.forget_deletions(keep=1000)
    assert await floor(database) == before
    await rows.forget_deletions(keep=0)
    assert await floor(database) > before


async def floor(database: Database) -> int:
    async def work(connection: AsyncConnection) -> int:
        found = await connection.execute(select(COUNTERS.c.value).where(COUNTERS.c.name == "semantic_pruned"))
        value: int = found.scalar_one()
        return value

    return await database.read(work)


@pytest.mark.slow
async def test_who_follows_the_numbers_holds_what_the_table_holds(
    database: Database, tenant: TenantRecord
) -> None:
    rows, follower, mine = SemanticRows(database), Follower(database), tenant.tenant_id

    async def write(seed: int) -> None:
        draw = random.Random(seed)
        for turn in range(ROUNDS):
            texts = {str(draw.randrange(20)) for _ in range(draw.randint(1, 4))}
            await rows.put([new_row(mine, text, 1000.0 + turn, draw.uniform(1, 9)) for text in texts])
            if draw.random() < 0.5:
                await rows.sweep(1000.0 + turn, 8)

    async def follow() -> None:
        while True:
            await follower.catch_up()
            await asyncio.sleep(0.001)

    following = asyncio.create_task(follow())
    await asyncio.gather(*(write(seed) for seed in range(WRITERS)))
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await follower.catch_up()
    assert follower.rows == await table(database)
