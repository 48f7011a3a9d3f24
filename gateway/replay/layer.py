"""The semantic layer as it is: vetoes, verifier and error budget over rows in memory, exact layer before it."""

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.replay.prepare import Prepared
from gateway.replay.shelf import Shelf, alive, missed
from gateway.replay.virtual_budget import VirtualBudget
from policies.budget import Explore, Serve
from policies.decide import Life
from policies.nomination import Ask, Candidate, Nominated
from policies.questions import Place, Question
from policies.replay import Line, Outcome, same_answer
from policies.semantic import eligible, reason_of, refusal_of
from policies.vetoes import VETOES

_VETOES = frozenset(VETOES)


class Judging(Protocol):
    """Judges meaning over rows that are put in and taken out."""

    def put(self, row: int, tenant_id: str, where: Place) -> None:
        """Takes in a stored question."""
        ...

    def remove(self, row: int) -> None:
        """Forgets it."""
        ...

    def nominate(self, ask: Ask) -> Nominated:
        """Candidates, best first."""
        ...


@dataclass(frozen=True, slots=True)
class LayerRules:
    """What an operator may set.

    Attributes:
        max_wrong: the error budget.
        min_probability: least probability at which a candidate is served until enough labels are learnt.
        audit_share: of would-be hits.
        limit: most candidates looked at.
        min_conversation_probability: as min_probability, where whole conversations were compared.
    """

    max_wrong: float
    min_probability: float
    audit_share: float
    limit: int
    min_conversation_probability: float = 0.65

    @property
    def name(self) -> str:
        """As tables call the layer under these rules."""
        return f"layer {100 * self.max_wrong:g} %"


@dataclass(frozen=True, slots=True)
class _Row:
    """A stored answer: the line it was made for, its life, and where its question belongs."""

    origin: int
    life: Life
    asked: tuple[bytes, Question]


class SemanticLayer:
    """Meets Policy.

    Args:
        lines: the whole log.
        judging: empty; this policy's own.
        rules: what the operator sets.
        seed: of the draws that choose what is explored.
    """

    family = "semantic layer"

    def __init__(self, lines: Sequence[Line], judging: Judging, rules: LayerRules, seed: int) -> None:
        self.name = rules.name
        self._lines = lines
        self._judging = judging
        self._rules = rules
        self._shelf = Shelf(lines)
        self._budgets: dict[tuple[str, str], VirtualBudget] = {}
        self._draw = random.Random(seed)  # noqa: S311  (a simulation: equal seeds, equal runs)
        self._rows: dict[int, _Row] = {}
        self._row_of: dict[tuple[bytes, Question], int] = {}
        self._due: list[tuple[float, int]] = []

    def ask(self, asked: Prepared) -> Outcome:
        """See Policy."""
        found = self._shelf.find(asked)
        if found is not None:
            return found
        reason = "absent"
        if asked.place is not None and asked.read:
            outcome = self._by_meaning(asked, asked.place)
            if outcome.layer is not None:
                return outcome
            reason = outcome.reason
        self._store(asked)
        return missed(asked, reason)

    def _by_meaning(self, asked: Prepared, where: Place) -> Outcome:
        self._expire(asked.line.t_s)
        budget = self._budget(asked)
        budget.came()
        ask = Ask(where.partition, where.family, where.question, self._rules.limit)
        nominated = self._judging.nominate(ask)
        reason = refusal_of(nominated.candidates, _VETOES)
        for candidate in eligible(nominated.candidates):
            row = self._rows.get(candidate.row)
            if row is None or not alive(row.life, asked.controls, asked.line.t_s):
                continue
            decision = budget.decide(candidate, self._draw.random())
            if isinstance(decision, Serve):
                return self._serve(asked, row)
            reason = reason_of(decision)
            if isinstance(decision, Explore):
                self._compare(asked, candidate, row, decision, budget)
            break
        return Outcome(None, reason)

    def _serve(self, asked: Prepared, row: _Row) -> Outcome:
        if asked.ttl_s is not None:
            self._shelf.put(asked, row.origin, row.life)
        return self._shelf.hit("semantic", row.origin, asked)

    def _compare(
        self, asked: Prepared, candidate: Candidate, row: _Row, decision: Explore, budget: VirtualBudget
    ) -> None:
        right = same_answer(self._lines[row.origin], asked.line)
        if right is not None:
            budget.learn(candidate, decision, right=right, now_s=asked.line.t_s)

    def _budget(self, asked: Prepared) -> VirtualBudget:
        name = (asked.line.tenant, asked.line.model)
        if name not in self._budgets:
            self._budgets[name] = VirtualBudget(self._rules)
        return self._budgets[name]

    def _store(self, asked: Prepared) -> None:
        if asked.ttl_s is None:
            return
        life = Life(asked.line.t_s, asked.ttl_s)
        self._shelf.put(asked, asked.at, life)
        if asked.place is None or not asked.by_meaning:
            return
        question = (asked.place.partition, asked.place.question)
        number = self._row_of.get(question)
        if number is None:
            number = self._row_of[question] = asked.at + 1
            self._judging.put(number, asked.line.tenant, asked.place)
        self._rows[number] = _Row(asked.at, life, question)
        heapq.heappush(self._due, (life.created_s + life.ttl_s, number))

    def _expire(self, now_s: float) -> None:
        while self._due and self._due[0][0] <= now_s:
            _, number = heapq.heappop(self._due)
            row = self._rows.get(number)
            if row is not None and row.life.created_s + row.life.ttl_s <= now_s:
                del self._rows[number], self._row_of[row.asked]
                self._judging.remove(number)
