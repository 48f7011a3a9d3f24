"""Numbers: every amount of one question has its equal in the other, in whatever unit it is written."""

from collections import Counter

from policies.vetoes.facts import Amount, Facts
from policies.vetoes.likeness import likeness

_ALIKE, _SAME_STORY, _EQUAL = 0.34, 0.5, 0.8
_STORY_WORDS = 12
_MOST = 100
_HALF_DAY = 720
_LOOSE = frozenset({"", "pounds", "ordinal"})


def differs(stored: Facts, asked: Facts) -> str | None:
    """The amounts that differ; an amount in only one question counts between questions that are else alike."""
    if stored.amounts == asked.amounts:
        return None
    ours, theirs = _lonely(stored, asked), _lonely(asked, stored)
    hard = [one for one in (*ours, *theirs) if not one[3]]
    if not hard:
        soft = {one[0] for one in ours} & {other[0] for other in theirs}
        return f"{ours[0][2]:g} / {theirs[0][2]:g}" if soft else _order(stored, asked)
    if not (ours and theirs) and likeness(stored, asked) < _ALIKE:
        return None
    return ", ".join(sorted({f"{value:g} {dimension}".strip() for dimension, _, value, _ in hard}))


def _order(stored: Facts, asked: Facts) -> str | None:
    """The order of the same amounts in the same words, as in `3 red and 5 blue` and `5 red and 3 blue`."""
    ours = [one[1] for one in stored.amounts if not one[3]]
    theirs = [other[1] for other in asked.amounts if not other[3]]
    if len(ours) != len(theirs):
        as_many = len(stored.amounts) == len(asked.amounts)  # `a year` and `twelve months`
        return None if as_many or likeness(stored, asked) < _SAME_STORY else _times(ours, theirs)
    story = len(stored.content) >= _STORY_WORDS and likeness(stored, asked) >= _EQUAL
    if ours == theirs or not (story or _frame(stored) == _frame(asked)):
        return None
    return f"order of {' '.join(f'{value:g}' for value in ours)}"


def _times(ours: list[float], theirs: list[float]) -> str:
    """An amount that one of two tellings of a story has more often: a step was added, or a given taken away."""
    more, fewer = Counter(ours) - Counter(theirs), Counter(theirs) - Counter(ours)
    return f"times of {next(iter(more + fewer)):g}"


def _frame(facts: Facts) -> list[str]:
    """The content words around the figures."""
    return [word for word in facts.content if not word[0].isdigit()]


def _lonely(these: Facts, those: Facts) -> list[Amount]:
    """Those of the first hundred amounts that differ in writing and have no equal on the other side."""
    other_way = set(those.amounts)
    written = [one for one in these.amounts if one not in other_way]
    return [
        one
        for one in written[:_MOST]
        if not any(_equal(one, other) for other in those.amounts) and not _is_hour(one, those)
    ]


def _equal(one: Amount, other: Amount) -> bool:
    if one[0] == other[0]:
        return one[1] == other[1]
    if "percent" in {one[0], other[0]} and one[1] == other[1]:
        return True
    return one[2] == other[2] and not _LOOSE.isdisjoint({one[0], other[0]})


def _is_hour(one: Amount, those: Facts) -> bool:
    """A bare number that the other side writes as a time of day: `six` for 18:00, `17.30` for half past five."""
    minute = int(one[2]) * 60 + round(one[2] % 1 * 100)
    return not one[0] and any(
        part == "minute" and value % _HALF_DAY == minute % _HALF_DAY for part, value in those.dates
    )
