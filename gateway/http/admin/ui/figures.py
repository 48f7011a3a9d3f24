"""Figures, times and names as people read them."""

import re
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

NONE = "–"  # noqa: RUF001  (a dash, as tables have it)
"""Stands where there is nothing to be told."""

_STEPS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e4, "k"))
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_THOUSAND, _KIBI = 1000, 1024
_THREE_FIGURES = 100
_LEAST, _CENT = Decimal("0.000001"), Decimal("0.01")
_WORD = re.compile(r"[^a-z0-9]+")


def count(value: Any) -> str:
    """A whole number with separators."""
    return NONE if value is None else f"{round(float(value)):,}"


def short(value: Any) -> str:
    """A number in about five characters."""
    if value is None:
        return NONE
    number = float(value)
    for step, unit in _STEPS:
        if abs(number) >= step:
            scaled = number / (_THOUSAND if unit == "k" else step)
            return f"{scaled:.3g}{unit}" if abs(scaled) < _THOUSAND else f"{scaled:,.0f}{unit}"
    return f"{number:,.0f}" if number == int(number) else f"{number:,.1f}"


def share(value: Any, digits: int = 1) -> str:
    """A share as per cent."""
    return NONE if value is None else f"{float(value) * 100:.{digits}f} %"


def ms(value: Any) -> str:
    """Milliseconds, or seconds where there are many."""
    if value is None:
        return NONE
    number = float(value)
    if number >= _THOUSAND:
        seconds = number / _THOUSAND
        return f"{seconds:,.0f} s" if seconds >= _THREE_FIGURES else f"{seconds:.3g} s"
    return f"{number:,.0f} ms" if number >= _THREE_FIGURES else f"{number:.3g} ms"


def money(value: Any) -> str:
    """Dollars, with as many decimals as tell something."""
    try:
        amount = None if value in (None, "") else Decimal(str(value))
    except InvalidOperation:
        amount = None
    if amount is None:
        return NONE
    sign, size_ = ("-" if amount < 0 else ""), abs(amount)
    if size_ == 0 or size_ >= 1:
        return f"{sign}${size_:,.2f}"
    if size_ < _LEAST:
        return f"{sign}<${_LEAST}"
    return f"{sign}${size_:.{4 if size_ >= _CENT else 6}f}"


def size(value: Any) -> str:
    """Bytes in binary units."""
    if value is None:
        return NONE
    number, at = float(value), 0
    while number >= _KIBI and at < len(_UNITS) - 1:
        number, at = number / _KIBI, at + 1
    return f"{number:,.1f} {_UNITS[at]}" if at else f"{number:,.0f} B"


def when(at_s: Any) -> str:
    """A time in UTC, to the second."""
    time = _time(at_s)
    return NONE if time is None else time.strftime("%Y-%m-%d %H:%M:%S")


def clock(at_s: Any) -> str:
    """The time of day in UTC."""
    time = _time(at_s)
    return NONE if time is None else time.strftime("%H:%M:%S")


def iso(at_s: Any) -> str:
    """A time as machines read it."""
    time = _time(at_s)
    return "" if time is None else time.strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(seconds: Any) -> str:
    """A span of time in its largest fitting unit."""
    if seconds is None:
        return NONE
    number = abs(float(seconds))
    for unit_s, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if number >= 2 * unit_s:
            return f"{number / unit_s:,.0f} {name}"
    return f"{number:,.0f} s"


def words(name: Any) -> str:
    """A name of ours, as `not_found`, as words."""
    return str(name).replace("_", " ")


def slug(name: Any) -> str:
    """A word that may be a class or an id, whatever was given."""
    return _WORD.sub("-", str(name).lower()).strip("-") or "none"


def _time(at_s: Any) -> datetime | None:
    try:
        if isinstance(at_s, str):
            return datetime.fromisoformat(at_s).astimezone(UTC)
        return None if at_s is None else datetime.fromtimestamp(float(at_s), UTC)
    except (OverflowError, ValueError, OSError):
        return None


FILTERS = {
    "count": count,
    "short": short,
    "share": share,
    "ms": ms,
    "money": money,
    "size": size,
    "when": when,
    "clock": clock,
    "iso": iso,
    "duration": duration,
    "words": words,
    "slug": slug,
}
"""By their names in templates."""
