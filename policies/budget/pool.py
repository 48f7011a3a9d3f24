"""What a tenant's labels on one route have taught: curves of entries, and the prior that a fresh one begins with.

Labels pool: the weights over nodes are those of all entries so far, over the shipped ones, so a new entry may
serve at once where hardly any entry was wrong; an entry's own labels then move its own weights. Everything is
learnt one label at a time, and old labels fade.

Source: vCache (arXiv 2502.03771) for curves per entry; incremental EM (Neal and Hinton 1998) for the weights.
"""

import math
from collections.abc import Sequence

import msgspec

from policies.budget.curves import (
    EXPERTS,
    MOST_SCORE,
    Expert,
    Weights,
    chances,
    likelihoods,
    mean,
    normalised,
    product,
    shipped,
)

MARKS_AN_ENTRY = 32
MOST_ENTRIES = 2_000
_SPARE_MARKS = 16
_SHIPPED_ENTRIES = 12.0
_BARELY_BELIEVED = 1e-3
_FULL = 0.98
_STEP, _COARSE_STEP = 1 / 256, 1 / 16
_REFUTED = 1e-8

Likes = dict[int, Weights]
"""Per expert, how likely each node makes an entry's labels; the largest is 1."""


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """A label: whether a stored answer was right for a later question.

    Attributes:
        row: the stored row; None when the label is of no row that lives.
        score: the candidate's, see `score_of`.
        right: whether the stored answer says what the fresh one says.
        at_s: when, seconds since the epoch.
    """

    row: int | None
    score: float
    right: bool
    at_s: float


class Entry:
    """One row's labels: the newest MARKS_AN_ENTRY and some before; `likes` is what they say."""

    __slots__ = ("as_of_s", "likes", "marks")

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self.likes: Likes | None = None
        self.as_of_s = -math.inf

    def add(self, mark: Mark, likes: Likes) -> None:
        """Takes in a label; the oldest go several at a time, since `likes` is then made anew."""
        self.marks.append(mark)
        self.likes = likes
        if len(self.marks) > MARKS_AN_ENTRY + _SPARE_MARKS:
            del self.marks[:-MARKS_AN_ENTRY]
            self.likes = None


class Pool:
    """Learns from labels, and says how likely a candidate's answer is right.

    Not for use from several threads.

    Args:
        half_life_s: after this time a label counts half.

    Attributes:
        labels: how many labels it has learnt from, faded.
    """

    __slots__ = (
        "_alive",
        "_at_s",
        "_entries",
        "_evidence",
        "_half_life_s",
        "_minds",
        "_seen",
        "_shipped",
        "labels",
    )

    def __init__(self, half_life_s: float) -> None:
        self._half_life_s = half_life_s
        self._at_s = -math.inf
        self._entries: dict[int, Entry] = {}
        self._shipped = [shipped(expert) for expert in EXPERTS]
        self._seen = [[0.0] * len(weights) for weights in self._shipped]
        self._evidence = [0.0] * len(EXPERTS)
        self._alive: tuple[int, ...] = tuple(range(len(EXPERTS)))
        self.labels = 0.0
        self._minds: list[tuple[int, Expert, float, Weights]] = []
        self._make_up_minds()

    def chance(self, score: float, row: int | None) -> float:
        """A lower bound, over all that is not known, of the chance that the row's answer is right at this score.

        Rises with the score, with each right label of the row and falls with each wrong one; 0 to 1.
        """
        if math.isnan(score):
            return 0.0
        score = max(-MOST_SCORE, min(MOST_SCORE, score))
        entry = None if row is None else self._entries.get(row)
        if entry is None:
            return sum(belief * mean(prior, chances(expert, score)) for _, expert, belief, prior in self._minds)
        likes = self._likes(entry)
        return sum(
            belief * mean(product(prior, likes[number]), chances(expert, score))
            for number, expert, belief, prior in self._minds
        )

    def age(self, now_s: float) -> None:
        """Lets labels fade up to now, in steps; going back in time changes nothing."""
        passed_s = now_s - self._at_s
        if passed_s < self._half_life_s * _STEP:
            return
        self._at_s = now_s
        if not math.isfinite(passed_s):
            return
        kept = 0.5 ** (passed_s / self._half_life_s)
        self.labels *= kept
        self._evidence = [kept * one for one in self._evidence]
        self._seen = [[kept * one for one in seen] for seen in self._seen]
        self._make_up_minds()

    def learn(self, mark: Mark) -> None:
        """Takes in a label, in any order of time."""
        if math.isnan(mark.score):
            return
        self.age(mark.at_s)
        kept = self._kept(mark)
        self.labels += kept
        score = max(-MOST_SCORE, min(MOST_SCORE, mark.score))
        entry, before = self._entry(mark.row)
        after: Likes = {}
        for number in self._alive:
            expert, prior = EXPERTS[number], self._prior(number)
            said = likelihoods(expert, score, mark.right)
            old = product(prior, before[number]) if before else prior
            self._evidence[number] += kept * math.log(mean(old, said))
            new = product(before[number], _faded(said, kept)) if before else _faded(said, kept)
            top = max(new)
            after[number] = [one / top for one in new]
            self._respond(number, old if before else None, product(prior, after[number]))
        if entry is not None:
            entry.add(mark, after)
        self._make_up_minds()

    def _respond(self, number: int, old: Weights | None, new: Weights) -> None:
        """Moves one entry's part in the pool from where it was to where it is."""
        seen = self._seen[number]
        moved = normalised(new)
        if old is not None:
            moved = [after - before for after, before in zip(moved, normalised(old), strict=True)]
        self._seen[number] = [max(0.0, one + more) for one, more in zip(seen, moved, strict=True)]

    def _entry(self, row: int | None) -> tuple[Entry | None, Likes | None]:
        if row is None:
            return None, None
        entry = self._entries.pop(row, None)
        if entry is None:
            entry = Entry()
        self._entries[row] = entry  # last in the order of forgetting
        if len(self._entries) > MOST_ENTRIES:
            del self._entries[next(iter(self._entries))]
        return entry, (self._likes(entry) if entry.marks else None)

    def _likes(self, entry: Entry) -> Likes:
        if entry.likes is None or self._at_s - entry.as_of_s > self._half_life_s * _COARSE_STEP:
            entry.likes = {number: self._likes_of(EXPERTS[number], entry.marks) for number in self._alive}
            entry.as_of_s = self._at_s
        return entry.likes

    def _likes_of(self, expert: Expert, marks: Sequence[Mark]) -> Weights:
        likes: Weights = [1.0] * len(expert.factors)
        for mark in marks:
            score = max(-MOST_SCORE, min(MOST_SCORE, mark.score))
            likes = product(likes, _faded(likelihoods(expert, score, mark.right), self._kept(mark)))
            top = max(likes)
            likes = [one / top for one in likes]
        return likes

    def _kept(self, mark: Mark) -> float:
        """How much of a label is left, 0 to 1."""
        return float(0.5 ** (max(0.0, self._at_s - mark.at_s) / self._half_life_s))

    def _prior(self, number: int) -> Weights:
        """The weights that a fresh entry begins with, to one expert."""
        ship, seen = self._shipped[number], self._seen[number]
        return normalised([_SHIPPED_ENTRIES * first + more for first, more in zip(ship, seen, strict=True)])

    def _make_up_minds(self) -> None:
        """Who is believed how much; whoever is as good as refuted is not asked again."""
        best = max(self._evidence[number] for number in self._alive)
        told = [EXPERTS[number].weight * math.exp(self._evidence[number] - best) for number in self._alive]
        beliefs = dict(zip(self._alive, normalised(told), strict=True))
        self._alive = tuple(number for number, belief in beliefs.items() if belief > _REFUTED)
        total = sum(belief for belief in beliefs.values() if belief > _BARELY_BELIEVED)
        self._minds = [
            (number, EXPERTS[number], belief / total, self._prior(number))
            for number, belief in beliefs.items()
            if belief > _BARELY_BELIEVED
        ]


def _faded(said: Weights, kept: float) -> Weights:
    """Likelihoods of a label of which only so much is left."""
    return said if kept > _FULL else [one**kept for one in said]
