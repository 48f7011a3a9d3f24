"""Alignment: which turn of one conversation answers to which of the other, and what differs within such a pair."""

from collections.abc import Callable, Sequence

import msgspec

from policies.conversations.turns import Told

Likeness = Callable[[str, str], float]
"""Cosine of two texts, -1 to 1."""

LEAST_LIKENESS = 0.4
"""Of two turns that may be aligned."""


class Alignment(msgspec.Struct, frozen=True):
    """How two histories lie against each other.

    Attributes:
        equal: positions of turns that say the same in the same words, ascending on both sides.
        changed: positions of turns that answer to each other in other words.
        only_stored, only_asked: positions without a counterpart; turns of nothing but courtesies are left out.
    """

    equal: tuple[tuple[int, int], ...] = ()
    changed: tuple[tuple[int, int], ...] = ()
    only_stored: tuple[int, ...] = ()
    only_asked: tuple[int, ...] = ()


class Gap(msgspec.Struct, frozen=True):
    """Turns between two equal ones: positions in both histories."""

    stored: tuple[int, ...]
    asked: tuple[int, ...]


def anchors(stored: Sequence[Told], asked: Sequence[Told]) -> tuple[list[tuple[int, int]], list[Gap]]:
    """The longest common sequence of equal turns, and the gaps it leaves."""
    left = [place for place, told in enumerate(stored) if not told.idle]
    right = [place for place, told in enumerate(asked) if not told.idle]
    same: list[list[float]] = [[float(_says_same(stored[i], asked[j])) for j in right] for i in left]
    pairs = [(left[i], right[j]) for i, j in _best(same, 1.0)]
    gaps, before = [], (-1, -1)
    for pair in [*pairs, (len(stored), len(asked))]:
        gap = Gap(
            tuple(place for place in left if before[0] < place < pair[0]),
            tuple(place for place in right if before[1] < place < pair[1]),
        )
        if gap.stored or gap.asked:
            gaps.append(gap)
        before = pair
    return pairs, gaps


def align(stored: Sequence[Told], asked: Sequence[Told], likeness: Likeness) -> Alignment:
    """Aligns two histories; `likeness` is asked for pairs inside gaps only."""
    equal, gaps = anchors(stored, asked)
    changed: list[tuple[int, int]] = []
    for gap in gaps:
        scores = [[_score(stored[i], asked[j], likeness) for j in gap.asked] for i in gap.stored]
        changed += [(gap.stored[i], gap.asked[j]) for i, j in _best(scores, LEAST_LIKENESS)]
    left, right = {i for i, _ in changed}, {j for _, j in changed}
    return Alignment(
        tuple(equal),
        tuple(changed),
        tuple(i for gap in gaps for i in gap.stored if i not in left),
        tuple(j for gap in gaps for j in gap.asked if j not in right),
    )


def _says_same(one: Told, other: Told) -> bool:
    return one.role == other.role and one.plain == other.plain


def _score(one: Told, other: Told, likeness: Likeness) -> float:
    if one.role != other.role:
        return -1.0
    return max(likeness(one.text, other.text), shared_words(one, other))


def shared_words(one: Told, other: Told) -> float:
    """Share of content words that two turns have in common (Dice), 0 to 1."""
    left, right = set(one.facts.content), set(other.facts.content)
    return 2 * len(left & right) / (len(left) + len(right)) if left or right else 0.0


def _best(scores: list[list[float]], least: float) -> list[tuple[int, int]]:
    """The order-keeping pairs of at least `least` with the highest sum."""
    if not scores or not scores[0]:
        return []
    height, width = len(scores), len(scores[0])
    best = [[0.0] * (width + 1) for _ in range(height + 1)]
    for i in range(height - 1, -1, -1):
        row, below, values = best[i], best[i + 1], scores[i]
        for j in range(width - 1, -1, -1):
            skip = max(below[j], row[j + 1])
            row[j] = max(skip, values[j] + below[j + 1]) if values[j] >= least else skip
    pairs, i, j = [], 0, 0
    while i < height and j < width:
        if scores[i][j] >= least and best[i][j] == scores[i][j] + best[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs
