"""One tenant's budget on one route: what was learnt, where the guard stands, and what was counted since."""

import math
from collections.abc import Iterable

from gateway.db.budget import Counted, MarkRow, PoolName, StateRow
from policies.budget import (
    Bank,
    Caution,
    Decision,
    Explore,
    Figures,
    Mark,
    Pool,
    Rules,
    Serve,
    Window,
    decide,
    would_serve,
)
from policies.nomination import Candidate

MARKS_LOADED = 1_000
_LUCKIEST = math.nextafter(1.0, 0.0)
_REMEMBERED_MARKS = 4_000
_REMEMBERED_SCORES = 2_000
_CAUTIONS: dict[str, Caution] = {"normal": "normal", "tightened": "tightened", "suspended": "suspended"}


class Ledger:
    """Decides and learns in memory; its owner moves marks and states to and from the database.

    Attributes:
        state: the guard's, as last read or made.
        ready: whether what other workers and earlier runs learnt is in.
        checked: whether the guard has looked at the newest audits.
    """

    __slots__ = (
        "_audited",
        "_bank",
        "_known",
        "_pool",
        "_scores",
        "_unsaved",
        "_window",
        "checked",
        "figures",
        "name",
        "ready",
        "state",
    )

    def __init__(self, name: PoolName, half_life_s: float, now_s: float) -> None:
        self.name = name
        self.state = StateRow(name, "normal", "new", now_s, 0, 0.0, 0.0, 0.0)
        self.ready = False
        self.checked = True
        self.figures: Figures = Window().figures()
        self._pool = Pool(half_life_s)
        self._window = Window()
        self._bank = Bank()
        self._audited = 0.0
        self._unsaved = [0, 0, 0]
        self._known: dict[int, None] = {}
        self._scores: dict[int, float] = {}

    @property
    def caution(self) -> Caution:
        """How far the layer is trusted."""
        return _CAUTIONS[self.state.caution]

    @property
    def labels(self) -> float:
        """How many labels were learnt from, faded."""
        return self._pool.labels

    def came(self, budget: float) -> None:
        """A request came to the layer, entitled to its share of the budget."""
        self._unsaved[0] += 1
        self._bank.came(budget)

    def delta(self, budget: float) -> float:
        """What the next request may risk."""
        return self._bank.delta(budget)

    def decide(self, candidate: Candidate, score: float, rules: Rules, u: float) -> Decision:
        """What becomes of the candidate; counted, and its score kept in case feedback comes."""
        decision = decide(score, candidate.row, self._pool, rules, u)
        if would_serve(decision):
            self._unsaved[1] += 1
        if isinstance(decision, Serve):
            self._unsaved[2] += 1
            self._bank.risked(decision.chance)
        if isinstance(decision, Serve | Explore):
            self._scores.pop(candidate.row, None)
            self._scores[candidate.row] = score
            if len(self._scores) > _REMEMBERED_SCORES:
                del self._scores[next(iter(self._scores))]
        return decision

    def weigh(self, candidate: Candidate, score: float, rules: Rules) -> Decision:
        """What would become of the candidate by the luckiest draw; nothing is counted."""
        return decide(score, candidate.row, self._pool, rules, _LUCKIEST)

    def last_score(self, row: int) -> float | None:
        """The score at which the row came up last."""
        return self._scores.get(row)

    def take_marks(self, rows: Iterable[MarkRow]) -> bool:
        """Learns from labels not known yet; whether there were any."""
        fresh = [row for row in rows if row.number not in self._known]
        for row in fresh:
            self._known[row.number] = None
            if len(self._known) > _REMEMBERED_MARKS:
                del self._known[next(iter(self._known))]
            self._pool.learn(Mark(row.row, row.score, row.right, row.at))
            if row.share is not None and row.number > self.state.mark:
                self._window.audited(row.share, row.right, row.number)
                self.checked = False
        return bool(fresh)

    def take_state(self, state: StateRow) -> bool:
        """Takes over where the guard stands; whether that is elsewhere than known."""
        moved = (state.caution, state.mark) != (self.state.caution, self.state.mark)
        if moved:
            self._window.forget_upto(state.mark)
            self.checked = False
        self.state = state
        asked, would, _ = self._unsaved
        self._window.asked, self._window.would = state.asked + asked, state.would + would
        return moved

    def look(self) -> Figures:
        """The guard's figures, made anew."""
        self.figures = self._window.figures()
        self._audited = self.figures.audits
        self.checked = True
        return self.figures

    def audits(self) -> float:
        """How many audits the last figures rest on."""
        return self._audited

    def last_mark(self) -> int:
        """The highest number of a label it has seen."""
        return max(self._known, default=self.state.mark)

    def unsaved(self) -> Counted | None:
        """What was counted since it was last taken, or None for nothing; takes it."""
        asked, would, served = self._unsaved
        self._unsaved = [0, 0, 0]
        return Counted(self.name, asked, would, served) if asked or would or served else None

    def give_back(self, counted: Counted) -> None:
        """What was taken could not be saved."""
        more = (counted.asked, counted.would, counted.served)
        self._unsaved = [one + other for one, other in zip(self._unsaved, more, strict=True)]

    def age(self, now_s: float) -> None:
        """Lets labels fade."""
        self._pool.age(now_s)
