"""A stream of questions whose truth is known: which entry is nearest, at which score, and whether it is right.

Questions repeat as in a Chinese restaurant: popular ones are asked ever more often, new ones keep coming, so that
counts are as Zipf has them. Each entry has a threshold of its own, drawn around the pool's. The nearest entry of a
new question is another's, at a low score as a rule.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

VARIANTS = ("sigmoid", "steps", "drift")
"""sigmoid: the family that vCache's theorem assumes. steps: no sigmoid at all, with entries that are always wrong
and a floor of errors no score can see. drift: half-way, entries go stale and the verifier grows too sure."""

_POOL_THRESHOLD, _THRESHOLD_SPREAD = 1.0, 1.2
_POOL_SLOPE, _SLOPE_SPREAD = 2.5, 0.25
_SAME, _OTHER, _SCORE_SPREAD = 5.0, -1.5, 1.8
_NEW_SHARE = 0.15
_STALE_SHARE = 0.15
_STALE_BY = 6.0
_TOO_SURE_BY = 0.8
DAYS = 20.0


@dataclass(slots=True)
class Truth:
    """One entry's: threshold, slope, share of errors at any score."""

    threshold: float
    slope: float
    lapse: float


@dataclass(frozen=True, slots=True)
class Request:
    """One request: its nearest entry at this score, and the truth about it.

    Attributes:
        chance: the probability, known to nobody but the oracle, with which the entry's answer is right.
        right: whether it is.
        at_s: when.
    """

    entry: int
    score: float
    chance: float
    right: bool
    at_s: float


class World:
    """Draws a stream; equal seeds draw equal ones."""

    def __init__(self, variant: str, seed: int) -> None:
        self._variant = variant
        self._random = random.Random(f"{variant}/{seed}")
        self._entries: list[Truth] = []
        self._asked: list[int] = []
        self._shift = 0.0

    def stream(self, requests: int) -> Iterator[Request]:
        """So many requests, evenly over DAYS days."""
        draw = self._random
        for number in range(requests):
            if self._variant == "drift" and number == requests // 2:
                self._go_stale()
            new = not self._entries or draw.random() < _NEW_SHARE
            at_s = number / requests * DAYS * 86400.0
            if self._asked:
                entry = draw.choice(self._asked)
                score = draw.gauss(_OTHER if new else _SAME, _SCORE_SPREAD)
                chance = self._chance(self._entries[entry], score - self._shift)
                yield Request(entry, score, chance, draw.random() < chance, at_s)
                self._asked.append(len(self._entries) if new else entry)
            else:
                self._asked.append(0)
            if new:
                self._entries.append(self._drawn())

    def _drawn(self) -> Truth:
        draw = self._random
        threshold = draw.gauss(_POOL_THRESHOLD, _THRESHOLD_SPREAD)
        slope = _POOL_SLOPE * math.exp(draw.gauss(0.0, _SLOPE_SPREAD))
        if self._variant != "steps":
            return Truth(threshold, slope, 0.0)
        kind = draw.random()
        if kind < 0.03:
            return Truth(math.inf, slope, 0.0)
        return Truth(threshold, slope, 0.01 if kind < 0.28 else 0.0)

    def _chance(self, truth: Truth, score: float) -> float:
        if self._variant == "steps":
            steps = (score >= truth.threshold - 1.0) * 0.6 + (score >= truth.threshold + 1.0) * 0.4
            return steps * (1.0 - truth.lapse)
        return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, truth.slope * (score - truth.threshold)))))

    def _go_stale(self) -> None:
        self._shift = _TOO_SURE_BY
        for truth in self._entries:
            if self._random.random() < _STALE_SHARE:
                truth.threshold += _STALE_BY
