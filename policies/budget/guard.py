"""Whether the layer keeps its budget, by figures that nothing learnt can bend: audits drawn at random.

normal ──► tightened ──► suspended     one step at a time, by evidence gathered since the last step
normal ◄── tightened ◄── suspended     likewise, once the upper bound is clearly under the budget again

Tightened, the layer plans with a part of its budget; suspended, it serves nothing and goes on auditing what it
would have served. Bounds are one-sided 95 % Wilson bounds of wrong/hits, times the share of would-be hits in all
requests. They are looked at again and again, so over a long time a layer within its budget may be tightened for a
while; the evidence asked for keeps that rare.
"""

from collections import deque
from collections.abc import Callable

import msgspec

from policies.budget.decision import Caution
from policies.intervals import ONE_SIDED_95, TWO_SIDED_95, Interval, trials_for, wilson

MOST_AUDITS = 4_000
RECENT_AUDITS = 200
_TIMES_ENOUGH = 8.0
_WRONGS_THAT_TELL = 6
_CLEARLY = 0.8
_FAR = 3.0
_LEAST_SHARE = 1e-4


class Figures(msgspec.Struct, frozen=True):
    """What audits say of a tenant and route, since the last step of the guard.

    Attributes:
        audits: how many, as an effective number where they were not drawn alike.
        wrong: how many of them were wrong.
        recent_wrong, recent_share: wrong ones among the newest RECENT_AUDITS, and their share.
        asked: requests that came to the layer.
        would: how many of these were, or would have been, answered by it.
        share_of_hits: wrong answers in hits, 0 to 1; `of_hits` is its 95 % interval.
        of_all: the 95 % interval of wrong answers in all requests.
        of_all_high: its one-sided upper bound, which is held against the budget; `of_all_low` likewise.
    """

    audits: float
    wrong: int
    recent_wrong: int
    recent_share: float
    asked: float
    would: float
    share_of_hits: float
    of_hits: Interval
    of_all: Interval
    of_all_low: float
    of_all_high: float

    @property
    def hit_share(self) -> float:
        """Would-be hits in all requests, 0 to 1; 1 before any was asked."""
        return min(1.0, self.would / self.asked) if self.asked > 0 else 1.0


class Step(msgspec.Struct, frozen=True):
    """What the guard does, and why; `stay` gives no evidence for anything else."""

    caution: Caution
    reason: str


class Window:
    """The audits since the guard's last step, the oldest giving way, and how many requests there were.

    Attributes:
        asked: requests that came to the layer.
        would: how many of them would have been answered by it.
    """

    __slots__ = ("_audits", "asked", "would")

    def __init__(self) -> None:
        self._audits: deque[tuple[float, bool, int]] = deque(maxlen=MOST_AUDITS)
        self.asked = 0.0
        self.would = 0.0

    def audited(self, share: float, right: bool, number: int) -> None:
        """A would-be hit, drawn with this probability, was compared; numbers rise."""
        self._audits.append((1.0 / max(share, _LEAST_SHARE), right, number))

    def forget_upto(self, number: int) -> None:
        """Drops the audits up to this number."""
        while self._audits and self._audits[0][2] <= number:
            self._audits.popleft()

    def figures(self) -> Figures:
        """The figures; sums over the window, so not for every request."""
        weights = [weight for weight, _, _ in self._audits]
        recent = list(self._audits)[-RECENT_AUDITS:]
        total = sum(weights)
        wrongs = [weight for weight, right, _ in self._audits if not right]
        share = sum(wrongs) / total if total else 0.0
        audits = total * total / sum(weight * weight for weight in weights) if total else 0.0
        hits = min(1.0, self.would / self.asked) if self.asked > 0 else 1.0
        both, one = wilson(share, audits, TWO_SIDED_95), wilson(share, audits, ONE_SIDED_95)
        return Figures(
            audits,
            len(wrongs),
            len(recent) - sum(right for _, right, _ in recent),
            sum(weight for weight, right, _ in recent if not right) / max(1e-9, sum(one[0] for one in recent)),
            self.asked,
            self.would,
            share,
            both,
            Interval(both.low * hits, both.high * hits),
            one.low * hits,
            one.high * hits,
        )


def step(caution: Caution, figures: Figures, delta: float) -> Step | None:
    """The guard's next step, or None to stay.

    Args:
        caution: where it stands.
        figures: since it came there.
        delta: the budget: wrong answers in all requests.
    """
    return _STEPS[caution](figures, delta)


def enough(figures: Figures, delta: float) -> float:
    """How many audits without a wrong one would put the upper bound under the budget."""
    return trials_for(min(1.0, delta / max(figures.hit_share, 1e-9)), ONE_SIDED_95)


def _normal(figures: Figures, delta: float) -> Step | None:
    if figures.of_all_low > _FAR * delta:
        return Step("suspended", "far_over_budget")
    if _over(figures, delta):
        return Step("tightened", "over_budget")
    return None


def _tightened(figures: Figures, delta: float) -> Step | None:
    if _over(figures, delta):
        return Step("suspended", "over_budget_tightened")
    return Step("normal", "within_budget") if _clearly_under(figures, delta) else None


def _suspended(figures: Figures, delta: float) -> Step | None:
    return Step("tightened", "within_budget") if _clearly_under(figures, delta) else None


def _over(figures: Figures, delta: float) -> bool:
    if figures.of_all_low > delta:
        return True
    if figures.recent_wrong >= _WRONGS_THAT_TELL and figures.recent_share * figures.hit_share > delta:
        return True
    return figures.of_all_high > delta and figures.audits >= _TIMES_ENOUGH * enough(figures, delta)


def _clearly_under(figures: Figures, delta: float) -> bool:
    return figures.audits > 0 and figures.asked > 0 and figures.of_all_high <= _CLEARLY * delta


_STEPS: dict[Caution, Callable[[Figures, float], Step | None]] = {
    "normal": _normal,
    "tightened": _tightened,
    "suspended": _suspended,
}
