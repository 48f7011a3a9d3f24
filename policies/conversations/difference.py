"""What two turns, or two sets of turns, say differently: facts on one side that the other lacks."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from policies.conversations.turns import Told
from policies.vetoes import Facts

KINDS = ("number", "date", "code", "name")


class Difference(msgspec.Struct, frozen=True):
    """How one turn differs from another.

    Attributes:
        missing: per kind of fact, how many of the first the second lacks.
        added: per kind of fact, how many of the second the first lacks.
        lost, gained: content words of the first and of the second without a counterpart, synonyms counted as such.
        kept: content words that have one.
        moved: share of the kept words that stand in another order, 0 to 1.
    """

    missing: tuple[int, ...]
    added: tuple[int, ...]
    lost: int
    gained: int
    kept: int
    moved: float

    @property
    def conflicts(self) -> tuple[int, ...]:
        """Per kind, facts that stand against others: both sides have some the other lacks."""
        return tuple(min(missing, added) for missing, added in zip(self.missing, self.added, strict=True))

    @property
    def swapped(self) -> int:
        """Content words that stand against others."""
        return min(self.lost, self.gained)

    @property
    def tight(self) -> float:
        """Share of content words that two turns with a swap keep, 0 to 1: high means one word was exchanged."""
        return 2 * self.kept / (2 * self.kept + self.lost + self.gained) if self.swapped else 0.0


def difference(stored: Told, asked: Told) -> Difference:
    """What the second turn says differently from the first."""
    missing, added = fact_counts(facts_of([stored.facts]), facts_of([asked.facts]))
    pairs = _matched(stored.facts, asked.facts)
    return Difference(
        missing,
        added,
        len(stored.facts.content) - len(pairs),
        len(asked.facts.content) - len(pairs),
        len(pairs),
        _moved(pairs),
    )


def facts_of(several: Iterable[Facts]) -> tuple[frozenset[object], ...]:
    """The facts of some turns by kind, in the order of KINDS."""
    numbers: set[object] = set()
    dates: set[object] = set()
    codes: set[object] = set()
    names: set[object] = set()
    for facts in several:
        numbers |= {(dimension, value) for dimension, value, _, soft in facts.amounts if not soft}
        dates |= facts.dates
        codes |= facts.codes | facts.links | facts.symbols
        names |= facts.names
    return frozenset(numbers), frozenset(dates), frozenset(codes), frozenset(names)


def fact_counts(
    stored: Sequence[frozenset[object]], asked: Sequence[frozenset[object]]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Per kind, how many facts of the first the second lacks, and the other way round."""
    pairs = list(zip(stored, asked, strict=True))
    return tuple(len(one - other) for one, other in pairs), tuple(len(other - one) for one, other in pairs)


def _matched(stored: Facts, asked: Facts) -> list[tuple[int, int]]:
    """Positions of content words that answer to each other, each used once; equal words first, then synonyms."""
    free = [*asked.content]
    places: dict[str, list[int]] = {}
    for place in range(len(free) - 1, -1, -1):
        places.setdefault(free[place], []).append(place)
    pairs, left = [], []
    for place, word in enumerate(stored.content):
        if places.get(word):
            pairs.append((place, places[word].pop()))
        else:
            left.append(place)
    open_places = sorted(place for several in places.values() for place in several)
    for place in left:
        senses = stored.senses[place]
        twin = next((other for other in open_places if senses & asked.senses[other]), None)
        if twin is not None:
            open_places.remove(twin)
            pairs.append((place, twin))
    return sorted(pairs)


def _moved(pairs: list[tuple[int, int]]) -> float:
    """Share of pairs outside the longest run that keeps its order."""
    if len(pairs) < 2:  # noqa: PLR2004  (one word has no order)
        return 0.0
    tails: list[int] = []
    for _, place in pairs:
        at = next((k for k, tail in enumerate(tails) if tail >= place), len(tails))
        tails[at : at + 1] = [place]
    return 1 - len(tails) / len(pairs)


def word_counts(several: Iterable[Facts]) -> Counter[str]:
    """Content words of some turns and how often each stands there."""
    return Counter(word for facts in several for word in facts.content)
