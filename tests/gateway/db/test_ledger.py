"""The ledger's sums on both databases: additive over workers, and each batch once, whatever happens to it."""

import asyncio
import contextlib
import random
import time

import pytest

from gateway.db import Database
from gateway.db.ledger import Batch, LedgerQuery, LedgerRepository, LedgerRow, day_of
from gateway.errors import DatabaseUnavailable
from policies.ledger import FIGURES, Key, Sums, merge, named
from tests.gateway.db.conftest import FORGET
from tests.servers.postgres import PostgresServer

DAY = 20_000
ALL = LedgerQuery("0000-00-00", "9999-99-99")
BY_LAYER = LedgerQuery("0000-00-00", "9999-99-99", ("layer",))


def key(layer: str = "exact", *, day: int = DAY, tenant: str = "t1", model: str = "a") -> Key:
    return Key(day, tenant, "m", "up", model, layer)


def tally(value: int) -> list[int]:
    return [value] * len(FIGURES)


async def read(ledger: LedgerRepository, query: LedgerQuery = ALL) -> list[LedgerRow]:
    return await ledger.read(query)


async def test_sums_add_up_over_workers_and_can_be_told_apart(database: Database) -> None:
    ledger = LedgerRepository(database)
    assert await read(ledger) == []
    assert await ledger.add(Batch("w1", 1, {key(): tally(2), key("model"): tally(5)}), 1.0)
    assert await ledger.add(Batch("w2", 1, {key(): tally(3), key(tenant="t2"): tally(7)}), 1.0)
    assert await ledger.add(Batch("w1", 2, {key(day=DAY + 1): tally(100)}), 2.0)
    (total,) = await read(ledger)
    assert total == LedgerRow({}, named(tally(117)))
    by_layer = await read(ledger, BY_LAYER)
    assert [(row.group["layer"], row.figures["requests"]) for row in by_layer] == [("exact", 112), ("model", 5)]
    one_day = LedgerQuery(day_of(DAY), day_of(DAY), ("day", "tenant_id"), frozenset({"t1", "t9"}))
    assert [(row.group, row.figures["calls"]) for row in await read(ledger, one_day)] == [
        ({"day": "2024-10-04", "tenant_id": "t1"}, 10)
    ]


async def test_a_batch_sent_again_counts_once(database: Database) -> None:
    ledger = LedgerRepository(database)
    batch = Batch("w1", 1, {key(): tally(2)})
    assert [await ledger.add(batch, 1.0) for _ in range(3)] == [True, False, False]
    assert sorted(await asyncio.gather(*(ledger.add(Batch("w1", 2, batch.sums), 1.0) for _ in range(4)))) == [
        *(False, False, False),
        True,
    ]
    assert not await ledger.add(batch, 1.0), "an older batch that comes late was already in"
    (total,) = await read(ledger)
    assert total.figures == named(tally(4))


async def test_a_batch_is_added_whole_or_not_at_all(database: Database) -> None:
    ledger = LedgerRepository(database)
    unstorable = {key(): tally(1), Key(DAY, "t1", "m", "up", "z", None): tally(1)}  # type: ignore[arg-type]
    with pytest.raises(DatabaseUnavailable):
        await ledger.add(Batch("w1", 1, unstorable), 1.0)
    assert await read(ledger) == []
    assert await ledger.add(Batch("w1", 1, {key(): tally(1)}), 1.0)


async def test_workers_that_flush_at_once_neither_lose_nor_lock_each_other(database: Database) -> None:
    ledger = LedgerRepository(database)
    drawn = random.Random(7)
    expected: Sums = {}

    async def worker(name: str) -> None:
        for number in range(1, 6):
            keys = drawn.sample([key(layer, model=model) for layer in ("exact", "model") for model in "abcd"], 5)
            sums = {one: tally(drawn.randrange(100)) for one in keys}
            merge(expected, sums)
            for _ in range(drawn.choice([1, 1, 2])):
                await ledger.add(Batch(name, number, sums), 1.0)

    await asyncio.gather(*(worker(f"w{number}") for number in range(4)))
    found = await read(ledger, LedgerQuery(*(day_of(DAY),) * 2, ("model", "layer")))
    assert {(row.group["model"], row.group["layer"]): row.figures for row in found} == {
        (one.model, one.layer): named(figures) for one, figures in expected.items()
    }


async def test_a_large_batch_and_absurd_sums(database: Database) -> None:
    ledger = LedgerRepository(database)
    many = {key(model=f"model-{number}"): tally(1) for number in range(1_000)}
    assert await ledger.add(Batch("w1", 1, many), 1.0)
    (total,) = await read(ledger)
    assert total.figures["requests"] == 1_000
    for number in (2, 3, 4):
        absurd = {key(model="absurd"): [*tally(10**30)[:-1], -(10**30)]}
        assert await ledger.add(Batch("w1", number, absurd), 1.0), "a sum that does not fit must stop nobody"


async def test_old_days_and_workers_are_forgotten(database: Database) -> None:
    ledger = LedgerRepository(database)
    now_s = time.time()
    await ledger.add(Batch("w1", 1, {key(day=1): tally(1), key(): tally(2)}), 1.0)
    assert await ledger.forget("2000-01-01", now_s) == 1
    (total,) = await read(ledger)
    assert total.figures["requests"] == 2
    assert await ledger.add(Batch("w1", 1, {key(): tally(1)}), now_s), "its worker is long gone"


@pytest.mark.slow
async def test_a_batch_whose_fate_is_unknown_counts_once(
    postgres_server: PostgresServer, migrated_postgres: str
) -> None:
    """The server stands still in the middle of flushes; each may or may not have arrived when it goes on."""
    database = Database.open(migrated_postgres, deadline_s=0.3)
    ledger = LedgerRepository(database)
    drawn = random.Random(11)
    unknown = 0
    for number in range(1, 13):
        adding = asyncio.create_task(ledger.add(Batch("w1", number, {key(): tally(1)}), 1.0))
        await asyncio.sleep(drawn.choice([0.0, 0.001, 0.003, 0.01]))
        postgres_server.freeze()
        try:
            await adding
        except DatabaseUnavailable:
            unknown += 1
        finally:
            postgres_server.thaw()
        await sent_until_known(ledger, Batch("w1", number, {key(): tally(1)}))
    (total,) = await read(ledger)
    assert total.figures["requests"] == 12
    assert unknown
    await database.close()
    postgres_server.execute(FORGET, migrated_postgres)


async def sent_until_known(ledger: LedgerRepository, batch: Batch) -> None:
    """Sends a batch again until the database says what became of it."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(DatabaseUnavailable):
                await ledger.add(batch, 1.0)
                return
