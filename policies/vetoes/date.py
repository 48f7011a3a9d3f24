"""Dates and times: both questions name the same ones; what is so now may also go unsaid."""

from policies.vetoes.facts import DatePart, Facts

_EITHER = "day and month"


def differs(stored: Facts, asked: Facts) -> str | None:
    """The parts of dates that only one question names."""
    if stored.dates == asked.dates:
        return None
    one, other = stored.dates, asked.dates
    if any(part == _EITHER for part, _ in one ^ other):
        one, other = _coupled(one), _coupled(other)
    lonely = sorted(part for part in one ^ other if _counts(part, other if part in one else one))
    return ", ".join(f"{part} {value}" for part, value in lonely) or None


def _counts(part: DatePart, other: frozenset[DatePart]) -> bool:
    """Whether a part that the other side lacks is a difference: `now` is none unless the other says when."""
    name, value = part
    return value != 0 or name == "minute" or name == "weekday" or any(name == theirs for theirs, _ in other)


def _coupled(parts: frozenset[DatePart]) -> frozenset[DatePart]:
    """The parts with a single day and month as one couple, since the other side does not say which is which."""
    days = [value for name, value in parts if name == "day"]
    months = [value for name, value in parts if name == "month"]
    if len(days) != 1 or len(months) != 1:
        return parts
    couple = min(days[0], months[0]) * 100 + max(days[0], months[0])
    return frozenset(part for part in parts if part[0] not in {"day", "month"}) | {(_EITHER, couple)}
