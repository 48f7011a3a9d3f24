"""What makes two texts differ that were meant to be the same: a time, an id, a counter, the order of JSON."""

import json
import re
import unicodedata
from collections.abc import Mapping

_AROUND = 48
_MOST_JSON_STARTS = 4
_MOST_JSON_CHARS = 20_000
_OPENING = re.compile(r"[{\[]")

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DAY = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?"
SHAPES: Mapping[str, re.Pattern[str]] = {
    "time": re.compile(
        rf"\d{{4}}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
        rf"|\d{{1,2}}:\d\d(?::\d\d)?(?:\s?[ap]m)?|\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}"
        rf"|{_MONTH}\.? \d{{1,2}}(?:, \d{{4}})?|\d{{1,2}}\.? {_MONTH}(?: \d{{4}})?"
        rf"|\b{_DAY}\b|\b1[5-9]\d{{8}}(?:\d{{3}})?\b",
        re.IGNORECASE,
    ),
    "id": re.compile(
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9A-HJKMNP-TV-Z]{26}\b"
        r"|\b[a-z]{2,12}_[0-9A-Za-z]{6,}\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b|\b\d{6,}\b"
        r"|\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{12,}\b",
        re.IGNORECASE,
    ),
    "number": re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?"),
}
"""By kind, what a volatile value looks like; the first that fits on both sides counts."""


def common_prefix(one: str, other: str) -> int:
    """How many characters both begin with."""
    if one == other:
        return len(one)
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def value_at(one: str, other: str, at: int) -> tuple[str, int, int] | None:
    """The volatile value in which two texts, equal up to `at`, diverge: its kind and where it ends in either."""
    reordered = _json_at(one, other, at)
    if reordered is not None:
        return ("json_order", *reordered)
    for kind, shape in SHAPES.items():
        ours, theirs = _match(shape, one, at), _match(shape, other, at)
        if ours is not None and theirs is not None and ours.group() != theirs.group():
            return kind, ours.end(), theirs.end()
    return None


def _match(shape: re.Pattern[str], text: str, at: int) -> re.Match[str] | None:
    """The match that `at` lies in, or begins or ends at."""
    near = shape.finditer(text, max(0, at - _AROUND), min(len(text), at + _AROUND))
    return next((found for found in near if found.start() <= at <= found.end()), None)


def _json_at(one: str, other: str, at: int) -> tuple[int, int] | None:
    """Where JSON around `at` ends in either text, when it says the same in another order or spacing."""
    opened = [found.start() for found in _OPENING.finditer(one, max(0, at - _MOST_JSON_CHARS), at)]
    for start in (*opened[:_MOST_JSON_STARTS], *opened[-_MOST_JSON_STARTS:]):
        ours, theirs = _read_json(one, start), _read_json(other, start)
        if ours is not None and theirs is not None and ours[1] > at and ours[0] == theirs[0]:
            return ours[1], theirs[1]
    return None


def _read_json(text: str, start: int) -> tuple[str, int] | None:
    """The JSON that begins at `start`, its names sorted, and where it ends."""
    try:
        value, end = json.JSONDecoder().raw_decode(text[start : start + _MOST_JSON_CHARS])
        return json.dumps(value, sort_keys=True), start + end
    except (ValueError, RecursionError):
        return None


def sameness(one: str, other: str) -> str | None:
    """In which way two different texts say the same: `whitespace`, `unicode` or `case`; None when they do not."""
    if "".join(one.split()) == "".join(other.split()):
        return "whitespace"
    if unicodedata.normalize("NFKC", one) == unicodedata.normalize("NFKC", other):
        return "unicode"
    return "case" if one.casefold() == other.casefold() else None
