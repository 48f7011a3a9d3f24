"""Dates and times: both questions name the same ones; what is so now may also go unsaid."""

from policies.vetoes.facts import DatePart, Facts
from policies.vetoes.likeness import likeness

_ALIKE = 0.5
_EITHER = "day and month"
_HALF_DAY = 720
_HOURS = frozenset({"minute", "clock"})
"""A time of day, and one that does not say which half of the day."""


def differs(stored: Facts, asked: Facts) -> str | None:
    """The parts of dates that differ; what only one question names counts between else like questions."""
    if stored.dates == asked.dates:
        return None
    one, other = stored.dates, asked.dates
    if any(part == _EITHER for part, _ in one ^ other):
        one, other = _coupled(one), _coupled(other)
    ours = [part for part in one - other if _counts(part, other, asked)]
    theirs = [part for part in other - one if _counts(part, one, stored)]
    if not (ours and theirs) and likeness(stored, asked) < _ALIKE:
        return None
    return ", ".join(f"{part} {value}" for part, value in sorted(ours + theirs)) or None


def _counts(part: DatePart, other: frozenset[DatePart], facts: Facts) -> bool:
    """Whether a part that the other side lacks is a difference.

    What is so now is none unless the other side says when; an hour is none that stands there as a bare number.
    """
    name, value = part
    if name in _HOURS:
        return not any(
            _is_hour(value, number, dimension) for dimension, _, number, _ in facts.amounts
        ) and not any(
            theirs in _HOURS and theirs != name and (value - when) % _HALF_DAY == 0 for theirs, when in other
        )
    return value != 0 or name == "weekday" or any(name == theirs for theirs, _ in other)


def _is_hour(minute: int, number: float, dimension: str) -> bool:
    return not dimension and (int(number) * 60 + round(number % 1 * 100) - minute) % _HALF_DAY == 0


def _coupled(parts: frozenset[DatePart]) -> frozenset[DatePart]:
    """The parts with a single day and month as one couple, since the other side does not say which is which."""
    days = [value for name, value in parts if name == "day"]
    months = [value for name, value in parts if name == "month"]
    if len(days) != 1 or len(months) != 1:
        return parts
    couple = min(days[0], months[0]) * 100 + max(days[0], months[0])
    return frozenset(part for part in parts if part[0] not in {"day", "month"}) | {(_EITHER, couple)}
