"""One tenant's error budget on one route in virtual time: labels are learnt and audits looked at as they come."""

import math
from typing import Protocol

from policies.budget import (
    Bank,
    Caution,
    Decision,
    Explore,
    Mark,
    Pool,
    Rules,
    Serve,
    Window,
    decide,
    score_of,
    step,
    would_serve,
)
from policies.nomination import Candidate
from policies.semantic import LEAST_CHANCE, Least

_HALF_LIFE_S = 30 * 24 * 3600.0
_ENOUGH_LABELS = 50.0


class BudgetRules(Protocol):
    """The part of the layer's rules that a budget needs."""

    @property
    def max_wrong(self) -> float:
        """Largest share of wrong answers in all requests."""
        ...

    @property
    def min_probability(self) -> float:
        """Least probability at which a candidate is served until enough labels are learnt."""
        ...

    @property
    def min_conversation_probability(self) -> float:
        """The same where whole conversations were compared."""
        ...

    @property
    def audit_share(self) -> float:
        """Of would-be hits."""
        ...


class VirtualBudget:
    """Decides and learns as `gateway.budget` does, without a database between."""

    def __init__(self, rules: BudgetRules) -> None:
        self._rules = rules
        self._pool = Pool(_HALF_LIFE_S)
        self._window = Window()
        self._bank = Bank()
        self._caution: Caution = "normal"
        self._audits = 0.0
        self._number = 0

    def came(self) -> None:
        """A request came to the layer."""
        self._window.asked += 1
        self._bank.came(self._rules.max_wrong)

    def decide(self, candidate: Candidate, u: float) -> Decision:
        """What becomes of a candidate; `u` is drawn from [0, 1)."""
        first = Least(self._rules.min_probability, self._rules.min_conversation_probability).of(candidate)
        begins = first > 0 and self._pool.labels < _ENOUGH_LABELS
        rules = Rules(
            self._bank.delta(self._rules.max_wrong),
            audit_share=self._rules.audit_share,
            caution=self._caution,
            audits=self._audits,
            least_chance=LEAST_CHANCE.of(candidate),
            least_score=score_of(first) if begins else -math.inf,
        )
        decision = decide(score_of(candidate.probability or 0.0), candidate.row, self._pool, rules, u)
        if would_serve(decision):
            self._window.would += 1
        if isinstance(decision, Serve):
            self._bank.risked(decision.chance)
        return decision

    def learn(self, candidate: Candidate, decision: Explore, *, right: bool, now_s: float) -> None:
        """Takes in how a comparison ended."""
        self._pool.learn(Mark(candidate.row, score_of(candidate.probability or 0.0), right, now_s))
        if decision.reason == "learn":
            return
        self._number += 1
        self._window.audited(decision.share, right, self._number)
        figures = self._window.figures()
        self._audits = figures.audits
        moved = step(self._caution, figures, self._rules.max_wrong)
        if moved is not None:
            self._caution = moved.caution
            self._window = Window()
