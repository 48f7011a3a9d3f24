"""Strict JSON: one text, one meaning, or a refusal; cache and model can never read a body differently.

Refused: duplicate names at any depth, NaN and infinities, numbers that overflow, integers beyond ±2^53, lone
surrogates, nesting deeper than 64, more than 200,000 members and elements, anything but UTF-8. Source: RFC 8259
§4 and §8, RFC 7493 (I-JSON) §2.
"""

import json
import math
import re
from array import array
from itertools import accumulate
from typing import Any

MAX_DEPTH = 64
MAX_VALUES = 200_000
"""Elements and members in all: a chat has thousands; millions would hold the loop for seconds."""
MAX_INTEGER = 2**53
_MAX_NUMBER_CHARS = 400
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A string, also one that never ends: then it takes the rest, so that no later quote starts a search anew."""
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


class StrictJsonError(ValueError):
    """The text is not strict JSON; the message says what is wrong without quoting the text."""


def loads(raw: bytes) -> Any:
    """Parses strictly.

    Raises:
        StrictJsonError: see the module's list.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise StrictJsonError("the body is not valid UTF-8") from None
    if text.startswith("\ufeff"):
        raise StrictJsonError("the body begins with a byte order mark")
    if raw.count(b",") > MAX_VALUES and _STRING.sub(b"", raw).count(b",") > MAX_VALUES:
        raise StrictJsonError(f"more than {MAX_VALUES} values")
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH:
        _check_depth(raw)
    try:
        value = _DECODER.decode(text)
    except StrictJsonError:
        raise
    except RecursionError:
        raise StrictJsonError(f"nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        where = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise StrictJsonError(f"the body is not valid JSON{where}") from None
    if "\\u" in text or "\\U" in text:
        _check_surrogates(value)
    return value


def _check_depth(raw: bytes) -> None:
    """Adds up one per opening and minus one per closing bracket outside strings, in one pass at C speed."""
    steps = array("b", _STRING.sub(b"", raw).translate(_STEPS, _NOT_BRACKETS))
    if MAX_DEPTH + 1 in accumulate(steps):
        raise StrictJsonError(f"nested deeper than {MAX_DEPTH} levels")


def _check_surrogates(value: Any) -> None:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            try:
                item.encode("utf-8")
            except UnicodeEncodeError:
                raise StrictJsonError("a string holds half of a surrogate pair") from None
        elif isinstance(item, dict):
            pending.extend(item)
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise StrictJsonError("an object names the same member twice")
    return made


def _integer(digits: str) -> int:
    if len(digits) > len(str(MAX_INTEGER)) + 1:
        raise StrictJsonError("an integer is beyond ±2^53")
    value = int(digits)
    if not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise StrictJsonError("an integer is beyond ±2^53")
    return value


def _real(digits: str) -> float:
    if len(digits) > _MAX_NUMBER_CHARS:
        raise StrictJsonError("a number has too many digits")
    value = float(digits)
    if math.isinf(value):
        raise StrictJsonError("a number is too large")
    return value


def _constant(name: str) -> Any:
    raise StrictJsonError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_real, parse_constant=_constant
)
