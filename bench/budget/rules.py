"""What is compared on the stream: our rule, vCache's from its paper, fixed thresholds, and who knows the truth."""

import random
from typing import Protocol

from bench.budget.vcache import VCacheEntry
from bench.budget.world import Request
from policies.budget import Bank, Explore, Mark, Pool, Rules, Serve, Window, decide, step, would_serve
from policies.budget.decision import exploration

_HALF_LIFE_S = 30 * 86400.0
_LOOK_EVERY = 5


class Rule(Protocol):
    """Answers each request in turn: whether the stored answer is served."""

    def serves(self, request: Request) -> bool:
        """May read everything of the request but its truth, except to learn from it when it does not serve."""
        ...


class Ours:
    """The learned rule, audits, and the guard on top, as a gateway runs them."""

    def __init__(self, delta: float, seed: int, rules: Rules | None = None) -> None:
        self._rules = rules or Rules(delta)
        self._delta = delta
        self._draw = random.Random(f"ours/{seed}")
        self._pool = Pool(_HALF_LIFE_S)
        self._window = Window()
        self._bank = Bank()
        self._audits = 0
        self.steps: list[str] = []
        self.caution = self._rules.caution
        self._seen = 0.0

    def serves(self, request: Request) -> bool:
        """See Rule."""
        self._window.asked += 1
        self._bank.came(self._delta)
        rules = Rules(
            self._bank.delta(self._delta),
            self._rules.least_chance,
            self._rules.audit_share,
            self._rules.serving,
            self.caution,
            self._seen,
        )
        decision = decide(request.score, request.entry, self._pool, rules, self._draw.random())
        self._window.would += would_serve(decision)
        if isinstance(decision, Serve):
            self._bank.risked(decision.chance)
            return True
        if isinstance(decision, Explore):
            self._pool.learn(Mark(request.entry, request.score, request.right, request.at_s))
            if would_serve(decision):
                self._audited(decision, right=request.right)
        return False

    def _audited(self, decision: Explore, *, right: bool) -> None:
        self._audits += 1
        self._window.audited(decision.share, right, self._audits)
        if self._audits % _LOOK_EVERY:
            return
        figures = self._window.figures()
        self._seen = figures.audits
        moved = step(self.caution, figures, self._delta)
        if moved is not None:
            self.caution = moved.caution
            self.steps.append(moved.caution)
            self._window = Window()


class VCache:
    """vCache's decision per entry; `log_grid` replaces its linear grid of eps by a log-spaced one, no more."""

    def __init__(self, delta: float, seed: int, *, log_grid: bool = False) -> None:
        self._delta = delta
        self._draw = random.Random(f"vcache/{seed}")
        self._log_grid = log_grid
        self._entries: dict[int, VCacheEntry] = {}

    def serves(self, request: Request) -> bool:
        """See Rule."""
        entry = self._entries.setdefault(request.entry, VCacheEntry(log_grid=self._log_grid))
        similarity = min(1.0, max(0.0, (request.score + 10.0) / 20.0))
        if self._draw.random() > entry.exploration(similarity, self._delta):
            return True
        entry.learn(similarity, right=request.right)
        return False


class Static:
    """Serves from a fixed score on."""

    def __init__(self, score: float) -> None:
        self._score = score

    def serves(self, request: Request) -> bool:
        """See Rule."""
        return request.score >= self._score


class Oracle:
    """Knows each entry's true curve, and explores as the bound asks."""

    def __init__(self, delta: float, seed: int) -> None:
        self._delta = delta
        self._draw = random.Random(f"oracle/{seed}")

    def serves(self, request: Request) -> bool:
        """See Rule."""
        return self._draw.random() >= exploration(request.chance, self._delta)
