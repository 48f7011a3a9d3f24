"""All budgets of a worker: decides at once from memory, learns from the database that all workers write to."""

import asyncio
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from gateway.budget.ledger import MARKS_LOADED, Ledger
from gateway.db.budget import BudgetRepository, Counted, MarkRow, PoolName, StateRow
from gateway.errors import DatabaseUnavailable
from gateway.telemetry.metrics import Metrics
from policies.budget import Decision, Refuse, Rules, score_of, step
from policies.nomination import Candidate
from policies.semantic import ANY_CHANCE, LEAST_CHANCE, Least

_MOST_LEDGERS = 1_000
_LOOK_BACK = 500
_BATCH = 1_000
_AGE_EVERY = 60
_SAVE_EVERY = 5
_LOAD_SLICE = 4
_LOADING = Refuse(0.0, 1.0, "loading")
_HALF_LIVES_KEPT = 8
_ENOUGH_LABELS = 50.0


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """What the operator wants.

    Attributes:
        max_wrong: the budget: largest share of wrong answers in all requests of a tenant and route.
        of_routes: the same for routes that have their own.
        audit_share: share of would-be hits that also go to the model.
        half_life_s: after this time a label counts half.
        least_chance: candidates less likely right than this are never served.
        first_probability: nor are candidates whose verifier's probability is less, until there are enough labels.
    """

    max_wrong: float
    of_routes: Mapping[str, float] = field(default_factory=dict)
    audit_share: float = 0.02
    half_life_s: float = 30 * 24 * 3600.0
    least_chance: Least = LEAST_CHANCE
    first_probability: Least = ANY_CHANCE

    def budget(self, route: str) -> float:
        """The budget of a route."""
        return self.of_routes.get(route, self.max_wrong)


class Budget:
    """Says which candidates may answer; learns when it is polled.

    A tenant and route that is new to this worker serves nothing until its labels are read, which begins at once.
    """

    def __init__(
        self,
        repository: BudgetRepository,
        plan: BudgetPlan,
        metrics: Metrics,
        log: structlog.typing.FilteringBoundLogger,
        *,
        now_s: Callable[[], float],
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._repository = repository
        self._plan = plan
        self._metrics = metrics
        self._log = log
        self._now_s = now_s
        self._draw = draw
        self._ledgers: dict[PoolName, Ledger] = {}
        self._loading: set[asyncio.Task[None]] = set()
        self._last = -1
        self._polls = 0

    @property
    def plan(self) -> BudgetPlan:
        """What the operator wants."""
        return self._plan

    @property
    def ledgers(self) -> list[Ledger]:
        """What this worker knows, of every tenant and route it has met."""
        return list(self._ledgers.values())

    def came(self, tenant_id: str, route: str, models: str) -> None:
        """A request came to the layer, with or without candidates; the bound is a share of these."""
        self._ledger(PoolName(tenant_id, route, models)).came(self._plan.budget(route))

    def decide(self, tenant_id: str, route: str, candidate: Candidate, models: str, *, serving: bool) -> Decision:
        """Whether a candidate that a verifier has judged may answer."""
        ledger = self._ledger(PoolName(tenant_id, route, models))
        decision: Decision = _LOADING
        if ledger.ready:
            score = score_of(candidate.probability or 0.0)
            decision = ledger.decide(
                candidate, score, self._rules(ledger, candidate, serving=serving), self._draw()
            )
        self._metrics.budget_decision(decision.reason)
        return decision

    def weigh(
        self, tenant_id: str, route: str, candidate: Candidate, models: str, *, serving: bool
    ) -> tuple[Decision, Mapping[str, float | str]]:
        """What would become of a candidate by the luckiest draw, and the figures behind it; counts nothing."""
        ledger = self._ledger(PoolName(tenant_id, route, models))
        if not ledger.ready:
            return _LOADING, {"max_wrong": self._plan.budget(route), "caution": "loading"}
        rules = self._rules(ledger, candidate, serving=serving)
        decision = ledger.weigh(candidate, score_of(candidate.probability or 0.0), rules)
        figures = ledger.figures
        return decision, {
            "max_wrong": rules.delta,
            "least_chance": rules.least_chance,
            "caution": rules.caution,
            "audit_share": rules.audited(),
            "labels": round(ledger.labels, 1),
            "audits": round(figures.audits, 1),
            "wrong_of_all_high": round(figures.of_all_high, 5),
        }

    def _rules(self, ledger: Ledger, candidate: Candidate, *, serving: bool) -> Rules:
        first = self._plan.first_probability.of(candidate)
        begins = first > 0 and ledger.labels < _ENOUGH_LABELS
        return Rules(
            ledger.delta(self._plan.budget(ledger.name.route)),
            self._plan.least_chance.of(candidate),
            self._plan.audit_share,
            serving,
            ledger.caution,
            ledger.audits(),
            score_of(first) if begins else -math.inf,
        )

    def score_for(self, tenant_id: str, route: str, row: int) -> tuple[str, float] | None:
        """Fingerprint and score with which this worker last met a row; None when it has not."""
        for name, ledger in self._ledgers.items():
            if (name.tenant_id, name.route) == (tenant_id, route) and (
                score := ledger.last_score(row)
            ) is not None:
                return name.models, score
        return None

    async def add(self, marks: Sequence[MarkRow]) -> None:
        """Stores labels; every worker learns from them with its next poll.

        Raises:
            DatabaseUnavailable: they are lost, or stored all the same.
        """
        await self._repository.add(marks)

    async def poll(self) -> None:
        """Exchanges labels, counts and states with the other workers; moves guards on.

        Raises:
            DatabaseUnavailable: nothing was learnt; the next poll makes up for it.
        """
        self._polls += 1
        if self._polls % _SAVE_EVERY == 0:
            await self._save()
        if self._polls % _AGE_EVERY == 0:
            self._age()
        if not self._ledgers:
            return
        await self._read_marks()
        states = await self._repository.states()
        for ledger in self.ledgers:
            if ledger.ready:
                self._take_state(ledger, states.get(ledger.name))
                await self._check(ledger)

    async def close(self) -> None:
        """Saves what was counted and stops loading."""
        for task in self._loading:
            task.cancel()
        await asyncio.gather(*self._loading, return_exceptions=True)
        try:
            await self._save()
        except DatabaseUnavailable:
            self._metrics.fault("budget", "unavailable")

    async def forget(self) -> int:
        """Deletes labels of which next to nothing is left; returns how many."""
        return await self._repository.forget(self._now_s() - _HALF_LIVES_KEPT * self._plan.half_life_s)

    def _ledger(self, name: PoolName) -> Ledger:
        ledger = self._ledgers.get(name)
        if ledger is None:
            if len(self._ledgers) >= _MOST_LEDGERS:
                del self._ledgers[next(iter(self._ledgers))]
            ledger = self._ledgers[name] = Ledger(name, self._plan.half_life_s, self._now_s())
            task = asyncio.get_running_loop().create_task(self._load(ledger), name="budget-load")
            self._loading.add(task)
            task.add_done_callback(self._loading.discard)
        return ledger

    async def _load(self, ledger: Ledger) -> None:
        try:
            if self._last < 0:
                self._last = await self._repository.head()
            state = (await self._repository.states()).get(ledger.name)
            rows = await self._repository.newest(ledger.name, MARKS_LOADED)
        except DatabaseUnavailable:
            self._metrics.fault("budget", "unavailable")
            if self._ledgers.get(ledger.name) is ledger:
                del self._ledgers[ledger.name]  # the next request tries again
            return
        if state is not None:
            ledger.take_state(state)
        for begin in range(0, len(rows), _LOAD_SLICE):
            ledger.take_marks(rows[begin : begin + _LOAD_SLICE])
            await asyncio.sleep(0)
        ledger.age(self._now_s())
        ledger.look()
        ledger.checked = False
        ledger.ready = True

    async def _read_marks(self) -> None:
        """Reads new labels, and some before them, since two writers' numbers may become visible in any order."""
        after = max(0, self._last - _LOOK_BACK)
        while rows := await self._repository.after(after, _BATCH):
            after = rows[-1].number
            self._last = max(self._last, after)
            by_pool: dict[PoolName, list[MarkRow]] = {}
            for row in rows:
                by_pool.setdefault(row.pool, []).append(row)
            for name, of_pool in by_pool.items():
                ledger = self._ledgers.get(name)
                if ledger is not None and ledger.ready:
                    ledger.take_marks(of_pool)
            if len(rows) < _BATCH:
                return

    def _take_state(self, ledger: Ledger, state: StateRow | None) -> None:
        if state is not None and ledger.take_state(state):
            self._tell(ledger)

    async def _check(self, ledger: Ledger) -> None:
        if ledger.checked:
            return
        figures = ledger.look()
        self._show(ledger)
        moved = step(ledger.caution, figures, self._plan.budget(ledger.name.route))
        if moved is None:
            return
        before, now_s = ledger.state, self._now_s()
        if before.reason == "new" and before.mark == 0:
            await self._repository.count([Counted(ledger.name, 0, 0, 0)], now_s)
        if await self._repository.step(before, moved.caution, moved.reason, ledger.last_mark(), now_s):
            after = replace(
                before,
                caution=moved.caution,
                reason=moved.reason,
                since=now_s,
                mark=ledger.last_mark(),
                asked=0.0,
                would=0.0,
                served=0.0,
            )
            self._take_state(ledger, after)

    def _show(self, ledger: Ledger) -> None:
        figures = ledger.figures
        self._metrics.budget_figures(
            ledger.name.tenant_id,
            ledger.name.route,
            figures.share_of_hits * figures.hit_share,
            figures.of_all_high,
            low=figures.of_all.low,
            allowed=self._plan.budget(ledger.name.route),
            suspended=ledger.caution == "suspended",
        )

    def _tell(self, ledger: Ledger) -> None:
        state, figures = ledger.state, ledger.figures
        self._show(ledger)
        self._metrics.budget_step(state.caution, state.reason)
        self._log.warning(
            "budget",
            part="semantic",
            tenant_id=ledger.name.tenant_id,
            route=ledger.name.route,
            caution=state.caution,
            reason=state.reason,
            budget=self._plan.budget(ledger.name.route),
            wrong_of_all_high=round(figures.of_all_high, 5),
            audits=round(figures.audits),
            wrong=figures.wrong,
        )

    async def _save(self) -> None:
        taken = [counted for ledger in self.ledgers if (counted := ledger.unsaved()) is not None]
        if not taken:
            return
        try:
            await self._repository.count(taken, self._now_s())
        except DatabaseUnavailable:
            for counted in taken:
                ledger = self._ledgers.get(counted.pool)
                if ledger is not None:
                    ledger.give_back(counted)
            raise

    def _age(self) -> None:
        for ledger in self.ledgers:
            ledger.age(self._now_s())
