"""Budgets of several workers over one database: they learn from each other, and move their guards together."""

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from pathlib import Path

import pytest
import structlog

from gateway.budget import Budget, BudgetPlan, budget_report
from gateway.db import Database, TenantRepository
from gateway.db.budget import BudgetRepository, MarkRow, PoolName
from gateway.telemetry.metrics import MOST_BUDGETS, Metrics
from policies.budget import Explore, Refuse, Serve
from policies.nomination import Candidate
from policies.semantic import Least
from tests.servers.sqlite import open_migrated

SURE = Candidate(7, 0.99, None, 0.99999)
NOW_S = 1_000_000.0


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await open_migrated(f"sqlite:///{tmp_path}/lamina.db")
    yield opened
    await opened.close()


class Worker:
    """One worker's budget; u is what it draws."""

    def __init__(self, database: Database, tenant_id: str, **plan: float) -> None:
        self.u = 0.99
        self.lines: list[dict[str, object]] = []
        self.metrics = Metrics()
        self.tenant_id = tenant_id
        log = structlog.wrap_logger(None, processors=[self._take], wrapper_class=structlog.BoundLogger)
        self.budget = Budget(
            BudgetRepository(database),
            BudgetPlan(0.01, **plan),  # type: ignore[arg-type]
            self.metrics,
            log,
            now_s=lambda: NOW_S,
            draw=lambda: self.u,
        )

    def _take(self, _logger: object, _method: str, event: MutableMapping[str, object]) -> str:
        self.lines.append(dict(event))
        raise structlog.DropEvent

    @property
    def pool(self) -> PoolName:
        return PoolName(self.tenant_id, "m", "v1")

    def decide(self, candidate: Candidate = SURE, *, serving: bool = True) -> object:
        self.budget.came(self.tenant_id, "m", "v1")
        return self.budget.decide(self.tenant_id, "m", candidate, "v1", serving=serving)

    async def ready(self) -> None:
        self.decide()
        await asyncio.gather(*self.budget._loading)
        assert all(ledger.ready for ledger in self.budget.ledgers)

    async def label(self, count: int, *, right: bool, share: float | None = 0.02, score: float = 9.0) -> None:
        marks = [MarkRow(0, self.pool, row, score, right, "audit", share, NOW_S) for row in range(count)]
        await self.budget.add(marks)


async def workers(database: Database, count: int = 2, **plan: float) -> list[Worker]:
    tenant = await TenantRepository(database).create("acme", "test", 1.0)
    return [Worker(database, tenant.tenant_id, **plan) for _ in range(count)]


async def test_nothing_is_served_until_what_was_learnt_is_read(database: Database) -> None:
    [worker] = await workers(database, 1)
    first = worker.decide()
    assert isinstance(first, Refuse)
    assert first.reason == "loading"
    await worker.ready()
    assert isinstance(worker.decide(), Serve)
    await worker.budget.close()


async def test_workers_learn_from_each_other_and_restarts_remember(database: Database) -> None:
    one, other = await workers(database)
    await one.ready()
    await other.ready()
    await one.label(30, right=False, share=None, score=9.0)
    await other.budget.poll()
    await other.budget.poll()
    assert isinstance(other.decide(), Explore)
    assert [round(line.labels) for line in budget_report(other.budget)] == [30]
    later = Worker(database, one.tenant_id)
    await later.ready()
    assert isinstance(later.decide(), Explore)


async def test_labels_under_other_models_do_not_count(database: Database) -> None:
    [worker] = await workers(database, 1)
    await worker.ready()
    await worker.label(30, right=False, share=None)
    await worker.budget.poll()
    worker.budget.decide(worker.tenant_id, "m", SURE, "v2", serving=True)
    await worker.ready()
    assert isinstance(worker.budget.decide(worker.tenant_id, "m", SURE, "v2", serving=True), Serve)


async def test_the_guard_steps_once_for_all_workers_and_says_so(database: Database) -> None:
    one, other = await workers(database)
    for worker in (one, other):
        await worker.ready()
        for _ in range(100):
            worker.decide()
    await one.label(40, right=True)
    await one.label(20, right=False)
    for _ in range(10):
        await one.budget.poll()
        await other.budget.poll()
    lines = [line for line in one.lines if line["event"] == "budget"]
    assert [(line["caution"], line["reason"]) for line in lines] == [("suspended", "far_over_budget")]
    assert [line["caution"] for line in other.lines] == ["suspended"]
    for worker in (one, other):
        assert not isinstance(worker.decide(), Serve)
        [line] = budget_report(worker.budget)
        assert (line.caution, line.reason, line.audits) == ("suspended", "far_over_budget", 0)
    page = one.metrics.exposition().decode()
    assert 'lamina_budget_steps_total{caution="suspended",reason="far_over_budget"} 1.0' in page
    assert "lamina_budget_wrong_share_high{" in page


async def test_a_suspended_layer_comes_back_by_itself(database: Database) -> None:
    [worker] = await workers(database, 1)
    await worker.ready()
    for _ in range(100):
        worker.decide()
    await worker.label(40, right=True)
    await worker.label(20, right=False)
    await worker.budget.poll()
    assert worker.lines[-1]["caution"] == "suspended"
    for expected in ("tightened", "normal"):
        for _ in range(10):
            worker.decide()
        await worker.label(600, right=True)
        await worker.budget.poll()
        assert worker.lines[-1]["caution"] == expected


async def test_counts_reach_the_report(database: Database) -> None:
    [worker] = await workers(database, 1)
    await worker.ready()
    for _ in range(10):
        worker.decide()
    worker.budget.came(worker.tenant_id, "m", "v1")
    for _ in range(5):
        await worker.budget.poll()
    await worker.budget.close()
    again = Worker(database, worker.tenant_id)
    await again.ready()
    await again.budget.poll()
    [line] = budget_report(again.budget)
    assert (line.asked, line.served) == (12, 10)


async def test_before_there_are_labels_the_verifier_must_be_sure(database: Database) -> None:
    [worker] = await workers(database, 1, first_probability=Least(0.999999, 0.999999))
    await worker.ready()
    assert isinstance(worker.decide(), Explore)


async def test_in_observe_mode_nothing_is_served(database: Database) -> None:
    [worker] = await workers(database, 1)
    await worker.ready()
    decision = worker.decide(serving=False)
    assert isinstance(decision, Refuse)
    assert decision.reason == "observe"


async def test_a_database_that_is_away_stops_nobody(database: Database) -> None:
    [worker] = await workers(database, 1)
    await worker.ready()
    await database.close()
    assert isinstance(worker.decide(), Serve)
    new = worker.budget.decide(worker.tenant_id, "other", SURE, "v1", serving=True)
    assert isinstance(new, Refuse)
    await asyncio.sleep(0.05)
    assert 'lamina_faults_total{part="budget",reason="unavailable"} 1.0' in worker.metrics.exposition().decode()
    await worker.budget.close()


def test_gauges_are_bounded() -> None:
    metrics = Metrics()
    for number in range(3 * MOST_BUDGETS):
        metrics.budget_figures(f"t{number}", "m", 0.1, 0.2)
    assert metrics.exposition().decode().count("lamina_budget_wrong_share{") == MOST_BUDGETS
