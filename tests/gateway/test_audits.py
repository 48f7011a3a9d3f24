"""Audits: labels from pairs of answers, behind the reply, bounded, and lost rather than waited for."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import structlog

from gateway.asked import Audit
from gateway.audits import Audits
from gateway.budget import Budget, BudgetPlan
from gateway.db import Database, TenantRepository
from gateway.db.budget import BudgetRepository, MarkRow
from gateway.errors import SemanticUnavailable
from gateway.telemetry.metrics import Metrics
from policies.budget import Explore
from policies.nomination import Candidate, Pairs, Verdicts
from policies.types import ChatResponse, Choice
from tests.servers.sqlite import open_migrated


class Verifier:
    """Says what it is told to, after a while."""

    def __init__(self) -> None:
        self.probability = 0.9
        self.veto: str | None = None
        self.wait_s = 0.0
        self.down = False
        self.asked: list[Pairs] = []

    async def verify(self, pairs: Pairs, deadline_s: float) -> Verdicts:
        assert deadline_s > 0
        self.asked.append(pairs)
        await asyncio.sleep(self.wait_s)
        if self.down:
            raise SemanticUnavailable("down")
        return Verdicts(((self.veto, self.probability),))


class Bench:
    """The parts, and what they did."""

    def __init__(self, database: Database, tenant_id: str, most_waiting: int = 256) -> None:
        self.database = database
        self.tenant_id = tenant_id
        self.verifier = Verifier()
        self.metrics = Metrics()
        self.repository = BudgetRepository(database)
        budget = Budget(
            self.repository, BudgetPlan(0.01), self.metrics, structlog.get_logger(), now_s=lambda: 1000.0
        )
        self.audits = Audits(budget, self.verifier, self.metrics, lambda: 1000.0, most_waiting)

    def audit(self, stored: str, decision: Explore | None = None) -> Audit:
        candidate = Candidate(7, 0.9, None, 0.5)
        decided = decision or Explore(0.9, 0.0, "audit", 0.02)
        return Audit(self.tenant_id, "m", candidate, "v1", decided, answer(stored))

    async def labels(self) -> Sequence[MarkRow]:
        await self.audits.drained()
        return await self.repository.after(0, 100)

    def counted(self, how: str, result: str) -> bool:
        return f'lamina_budget_audits_total{{how="{how}",result="{result}"}}' in self.metrics.exposition().decode()


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    database = await open_migrated(f"sqlite:///{tmp_path}/lamina.db")
    tenant = await TenantRepository(database).create("acme", "test", 1.0)
    made = Bench(database, tenant.tenant_id, most_waiting=4)
    yield made
    await made.audits.close()
    await database.close()


def answer(text: str, finish: str = "stop") -> ChatResponse:
    return ChatResponse("id", 1, "m", (Choice(0, {"role": "assistant", "content": text}, finish),), None, {})


async def test_what_rules_can_judge_needs_no_verifier(bench: Bench) -> None:
    bench.audits.compare(bench.audit("Paris."), answer("paris"))
    bench.audits.compare(bench.audit("42"), answer("It is 43."))
    labels = await bench.labels()
    assert [(label.row, label.score, label.right, label.share) for label in labels] == [
        (7, 0.0, True, 0.02),
        (7, 0.0, False, 0.02),
    ]
    assert not bench.verifier.asked


@pytest.mark.parametrize(
    ("probability", "veto", "right"), [(0.9, None, True), (0.1, None, False), (0.9, "number", False)]
)
async def test_prose_is_the_verifiers(bench: Bench, probability: float, veto: str | None, right: bool) -> None:
    bench.verifier.probability, bench.verifier.veto = probability, veto
    bench.audits.compare(bench.audit("Open the settings and choose it there."), answer("It is in the menu."))
    [label] = await bench.labels()
    assert label.right is right
    assert bench.verifier.asked[0].kind == "answers"


async def test_a_label_that_the_rule_asked_for_is_no_random_sample(bench: Bench) -> None:
    bench.audits.compare(bench.audit("a", Explore(0.5, 1.0, "learn")), answer("a"))
    [label] = await bench.labels()
    assert label.share is None


@pytest.mark.parametrize("fresh", [answer("Par", "length"), answer(""), answer("x", "content_filter")])
async def test_an_answer_that_is_none_teaches_nothing(bench: Bench, fresh: ChatResponse) -> None:
    bench.audits.compare(bench.audit("Paris"), fresh)
    assert await bench.labels() == []
    assert bench.counted("form", "unknown")


async def test_a_verifier_that_is_away_teaches_nothing(bench: Bench) -> None:
    bench.verifier.down = True
    bench.audits.compare(bench.audit("One thing said at length."), answer("Another thing, said otherwise."))
    assert await bench.labels() == []
    assert bench.counted("verifier", "unknown")


async def test_a_pair_that_the_service_failed_on_teaches_nothing(bench: Bench) -> None:
    bench.verifier.probability, bench.verifier.veto = 0.0, "fault"
    bench.audits.compare(bench.audit("One thing said at length."), answer("Another thing, said otherwise."))
    assert await bench.labels() == []
    assert bench.counted("verifier", "unknown")


async def test_the_queue_is_bounded_and_nobody_waits(bench: Bench) -> None:
    bench.verifier.wait_s = 0.05
    begun = asyncio.get_running_loop().time()
    for _ in range(50):
        bench.audits.compare(bench.audit("One thing said at length."), answer("Another thing, said otherwise."))
    assert asyncio.get_running_loop().time() - begun < 1
    assert len(await bench.labels()) == 4
    assert bench.counted("queue", "lost")


async def test_a_database_that_is_away_loses_the_label(bench: Bench) -> None:
    await bench.database.close()
    bench.audits.compare(bench.audit("a"), answer("a"))
    await bench.audits.drained()
    assert bench.counted("rules", "lost")
