"""Dates: days, months, years, times of day and words relative to now, as parts that can be compared one by one."""

import re
from collections.abc import Sequence

from policies.vetoes.facts import DatePart
from policies.vetoes.lexicon import Lexicon
from policies.vetoes.reading.tokens import Token

_FIRST_YEAR, _LAST_YEAR = 1700, 2150
_BEFORE_MONTH = frozenset({"in", "since", "until", "till", "by", "of", "last", "next", "early", "late",
    "during", "before", "after"})  # fmt: skip
_DIGITS = re.compile(r"\d+")
_DOUBTFUL = frozenset({"may", "march", "mar", "dec", "oct", "jan", "sep"})
_NAMED = frozenset({"may", "march"})


def date(row: Sequence[Token], at: int, lexicon: Lexicon) -> tuple[list[DatePart], int] | None:
    """The date or time that begins at a token and the index behind it; None when none begins there."""
    kind = row[at].kind
    if kind in {"isodate", "date"}:
        return _numeric(row[at].text, year_first=kind == "isodate"), at + 1
    if kind == "clock":
        return _clock(row[at].text), at + 1
    if kind == "decade":
        return [("decade", int(row[at].text[:4]))], at + 1
    if kind in {"number", "ordinal", "word"}:
        return _day_and_month(row, at, lexicon) or (_year(row, at, lexicon) if kind == "number" else None)
    return None


def _numeric(text: str, *, year_first: bool) -> list[DatePart]:
    """Day and month in either order unless one of them cannot be a month; then only as a couple."""
    parts = [int(part) for part in _DIGITS.findall(text)]
    if year_first:
        year, month, day = parts
        return [("year", year), ("month", month), ("day", day)]
    one, two, year = parts
    full = year if year >= 100 else 2000 + year if year < 70 else 1900 + year  # noqa: PLR2004
    if one > 12:  # noqa: PLR2004
        return [("year", full), ("month", two), ("day", one)]
    if two > 12 or one == two:  # noqa: PLR2004
        return [("year", full), ("month", one), ("day", two)]
    return [("year", full), ("day and month", min(one, two) * 100 + max(one, two))]


def _clock(text: str) -> list[DatePart]:
    digits = [int(part) for part in _DIGITS.findall(text)]
    hour, minute = digits[0], digits[1] if len(digits) > 1 else 0
    if "p" in text and hour < 12:  # noqa: PLR2004
        hour += 12
    elif "a" in text and hour == 12:  # noqa: PLR2004
        hour = 0
    elif "a" not in text and not text.startswith("0") and 1 <= hour < 12:  # noqa: PLR2004
        return [("clock", hour * 60 + minute)]
    return [("minute", hour * 60 + minute)]


def _day_and_month(row: Sequence[Token], at: int, lexicon: Lexicon) -> tuple[list[DatePart], int] | None:
    """`3rd March 2024`, `March 3, 2024`, `the third of May`, `May 2024`; a doubtful month only with company."""
    months = lexicon.months
    text, kind = row[at].text, row[at].kind
    month = months.get(text)
    day = _day(row[at], lexicon)
    if month is None and day is None:
        return None
    if month is None:
        next_at = at + 1 + (_text(row, at + 1) == "of")
        month = months.get(_text(row, next_at))
        if month is None or (kind == "word" and text not in lexicon.ordinals):
            return None
        return _with_year(row, next_at + 1, [("day", day or 0), ("month", month)])
    follows = row[at + 1] if at + 1 < len(row) else None
    follows = row[at + 2] if follows and follows.text == "the" and at + 2 < len(row) else follows
    day = _day(follows, lexicon) if follows else None
    if (
        day is not None
        and follows is not None
        and (follows.kind != "number" or not _is_unit(row, at + 2, lexicon))
    ):
        behind = at + 2 + (row[at + 1].text == "the")
        return _with_year(row, behind, [("month", month), ("day", day)])
    parts, behind = _with_year(row, at + 1, [("month", month)])
    if (
        text in _DOUBTFUL
        and len(parts) == 1
        and not (at and row[at - 1].text in _BEFORE_MONTH and row[at].capital)
    ):
        return None
    return parts, behind


def _day(token: Token, lexicon: Lexicon) -> int | None:
    if token.kind == "ordinal":
        day = int(token.text[:-2])
    elif token.kind == "number" and len(token.text) <= 2:  # noqa: PLR2004
        day = int(token.text)
    else:
        day = lexicon.ordinals.get(token.text, 0)
    return day if 1 <= day <= 31 else None  # noqa: PLR2004


def _with_year(row: Sequence[Token], at: int, parts: list[DatePart]) -> tuple[list[DatePart], int]:
    behind = at + 1 if at < len(row) and row[at].text in {",", "of", "in"} else at
    if behind < len(row) and row[behind].kind == "number" and _is_year(row[behind].text):
        return [*parts, ("year", int(row[behind].text))], behind + 1
    return parts, at


def _year(row: Sequence[Token], at: int, lexicon: Lexicon) -> tuple[list[DatePart], int] | None:
    if _is_year(row[at].text) and not _is_unit(row, at + 1, lexicon):
        return [("year", int(row[at].text))], at + 1
    return None


def _is_year(text: str) -> bool:
    return len(text) == 4 and text.isdigit() and _FIRST_YEAR <= int(text) <= _LAST_YEAR  # noqa: PLR2004


def _is_unit(row: Sequence[Token], at: int, lexicon: Lexicon) -> bool:
    return at < len(row) and (row[at].kind == "percent" or row[at].text in lexicon.units)


def _text(row: Sequence[Token], at: int) -> str:
    return row[at].text if at < len(row) else ""
