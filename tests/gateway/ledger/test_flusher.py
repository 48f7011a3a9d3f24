"""Sums reach SQL once, however the database behaves in between."""

import asyncio
import random
import shutil
import time
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.db import Database
from gateway.db.ledger import Batch, LedgerQuery, LedgerRepository
from gateway.errors import DatabaseUnavailable
from gateway.ledger import Answered, Called, Flusher, Ledger
from gateway.ledger.book import MOST_KEYS
from gateway.telemetry.metrics import Metrics
from policies.ledger import PriceRow, PriceTable, Sums, merge, named
from tests.gateway.http.wire import metric
from tests.servers.sqlite import open_migrated

PRICES = PriceTable([PriceRow(("a",), "3", "15", "0.3", "3.75", "6")])
USAGE = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 64}}
ALL = LedgerQuery("0000-00-00", "9999-99-99")
NOW_S = 20_000 * 86_400.0


def answered(source: str = "exact", *, tenant: str = "t1", model: str = "a", status: int = 200) -> Answered:
    return Answered(
        *("req_1", tenant, "chat", "m", "up", model, source, "HIT", "exact", status),
        *(False, USAGE if status == 200 else None, 0.001, None, 0.5),
    )


def called(*, model: str = "a", told: bool = True) -> Called:
    return Called("t1", "m", "up", model, "m", USAGE if told else None, 0.5)


def ledger_of(metrics: Metrics) -> Ledger:
    return Ledger(PRICES, frozenset({"engine"}), metrics, None, lambda: NOW_S)


def flusher_of(ledger: Ledger, repository: LedgerRepository, metrics: Metrics, closing_s: float = 0.5) -> Flusher:
    return Flusher(ledger, repository, metrics, lambda: NOW_S, keep_days=400, closing_s=closing_s)


class Unsteady(LedgerRepository):
    """A database that fails before or after it has committed, as told."""

    def __init__(self, database: Database, fates: list[str]) -> None:
        super().__init__(database)
        self.fates = deque(fates)

    async def add(self, batch: Batch, now_s: float) -> bool:
        fate = self.fates.popleft() if self.fates else "well"
        if fate == "before":
            raise DatabaseUnavailable("gone before the commit")
        done = await super().add(batch, now_s)
        if fate == "after":
            raise DatabaseUnavailable("gone after the commit")
        return done


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("migrated") / "lamina.db"

    async def migrate() -> None:
        await (await open_migrated(f"sqlite:///{path}")).close()

    asyncio.run(migrate())
    return path


@pytest.fixture
async def sqlite(migrated: Path, tmp_path: Path) -> AsyncIterator[Database]:
    shutil.copy(migrated, tmp_path / "lamina.db")
    database = Database.open(f"sqlite:///{tmp_path}/lamina.db", deadline_s=20)
    yield database
    await database.close()


async def test_lines_become_sums_of_their_day(sqlite: Database) -> None:
    metrics = Metrics()
    ledger, repository = ledger_of(metrics), LedgerRepository(sqlite)
    flusher = flusher_of(ledger, repository, metrics)
    ledger.answered(answered())
    ledger.answered(answered("flight"))
    ledger.answered(answered("none", status=401, tenant="-"))
    ledger.called(called())
    ledger.called(called(told=False))
    ledger.called(called(model="nobody-knows"))
    await flusher.flush()
    await flusher.flush()
    rows = {
        row.group["layer"]: row.figures
        for row in await repository.read(LedgerQuery("2024-10-04", "2024-10-04", ("layer",)))
    }
    assert rows.keys() == {"exact", "coalesced", "none", "model"}
    exact = rows["exact"]
    assert (exact["requests"], exact["prompt_tokens"], exact["completion_tokens"]) == (1, 100, 7)
    assert (exact["latency_us"], exact["saved_us"]) == (1_000, 499_000)
    assert exact["saved_pico"] == 36 * 3_000_000 + 64 * 300_000 + 7 * 15_000_000
    assert rows["none"]["errors"] == 1
    model = rows["model"]
    assert (model["calls"], model["calls_untold"], model["calls_unpriced"]) == (3, 1, 1)
    assert (model["fresh_tokens"], model["read_tokens"], model["output_tokens"]) == (72, 128, 14)
    page = metrics.exposition()
    assert metric(page, "lamina_call_tokens_total", provider="up", kind="read") == 128
    assert metric(page, "lamina_saved_usd_total", layer="exact") == pytest.approx(exact["saved_pico"] / 1e12)
    assert metric(page, "lamina_spent_usd_total", provider="up") == pytest.approx(exact["saved_pico"] / 1e12)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["exact", "flight", "call", "untold", "flush"])), max_size=25
    ),
    fates=st.lists(st.sampled_from(["well", "before", "after"]), max_size=20),
)
def test_any_lines_over_any_workers_with_any_failures_add_up(
    lines: list[tuple[int, str]], fates: list[str], tmp_path_factory: pytest.TempPathFactory, migrated: Path
) -> None:
    async def play() -> None:
        path = tmp_path_factory.mktemp("ledger") / "lamina.db"
        shutil.copy(migrated, path)
        database = Database.open(f"sqlite:///{path}", deadline_s=20)
        metrics, repository = Metrics(), Unsteady(database, fates)
        expected = ledger_of(metrics)
        ledgers = [ledger_of(metrics) for _ in range(3)]
        flushers = [flusher_of(one, repository, metrics, closing_s=30) for one in ledgers]
        for worker, what in lines:
            if what == "flush":
                try:
                    await flushers[worker].flush()
                except DatabaseUnavailable:
                    continue
            for ledger in (ledgers[worker], expected):
                if what in ("call", "untold"):
                    ledger.called(called(told=what == "call"))
                elif what != "flush":
                    ledger.answered(answered(what))
        for flusher in flushers:
            await flusher.close()
        found = await repository.read(LedgerQuery("0000-00-00", "9999-99-99", ("tenant_id", "model", "layer")))
        whole: Sums = {}
        merge(whole, expected.take())
        assert {
            (row.group["tenant_id"], row.group["model"], row.group["layer"]): row.figures for row in found
        } == {(key.tenant_id, key.model, key.layer): named(tally) for key, tally in whole.items()}
        await database.close()

    asyncio.run(play())


async def test_while_the_database_is_away_sums_wait(sqlite: Database) -> None:
    metrics = Metrics()
    ledger, repository = ledger_of(metrics), Unsteady(sqlite, ["before"] * 5)
    flusher = flusher_of(ledger, repository, metrics)
    for _ in range(5):
        ledger.answered(answered())
        with pytest.raises(DatabaseUnavailable):
            await flusher.flush()
    await flusher.close()
    (total,) = await repository.read(ALL)
    assert total.figures["requests"] == 5
    assert metric(metrics.exposition(), "lamina_faults_total", part="ledger") == 0


async def test_what_cannot_be_stored_at_the_end_is_counted(sqlite: Database) -> None:
    metrics = Metrics()
    ledger = ledger_of(metrics)
    flusher = flusher_of(ledger, Unsteady(sqlite, ["before"] * 99), metrics, closing_s=0.15)
    ledger.answered(answered())
    await flusher.close()
    assert metric(metrics.exposition(), "lamina_faults_total", part="ledger", reason="lost") == 1


def test_too_many_keys_keep_their_sums_and_lose_their_names() -> None:
    metrics = Metrics()
    ledger = ledger_of(metrics)
    for number in range(MOST_KEYS + 50):
        ledger.answered(answered(model=f"model-{number}"))
    sums = ledger.take()
    assert len(sums) == MOST_KEYS + 1
    assert sum(named(tally)["requests"] for tally in sums.values()) == MOST_KEYS + 50
    assert metric(metrics.exposition(), "lamina_faults_total", part="ledger", reason="overflow") == 50


async def test_names_that_a_client_chose_stop_no_flush(sqlite: Database) -> None:
    metrics = Metrics()
    ledger, repository = ledger_of(metrics), LedgerRepository(sqlite)
    for name in ("a\x00b", "x" * 5_000, "\ud800", "ünïcödé"):
        ledger.answered(answered(model=name))
    await flusher_of(ledger, repository, metrics).flush()
    found = await repository.read(LedgerQuery("0000-00-00", "9999-99-99", ("model",)))
    assert sorted(row.group["model"] for row in found) == sorted(["a?b", "x" * 200, "?", "ünïcödé"])


@pytest.mark.slow
def test_a_line_costs_microseconds() -> None:
    metrics = Metrics(lambda _delay, _work: None)
    ledger = ledger_of(metrics)
    drawn = random.Random(3)
    lines = [answered(tenant=f"t{drawn.randrange(20)}") for _ in range(20_000)]
    begun = time.process_time()
    for line in lines:
        ledger.answered(line)
    each_us = (time.process_time() - begun) / len(lines) * 1e6
    assert each_us < 50, each_us  # about 4 on a quiet machine
