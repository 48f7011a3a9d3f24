"""Strict JSON: one text, one meaning, or a refusal; cache and model can never read a body differently.

Refused: duplicate names at any depth, NaN and infinities, numbers that overflow, integers beyond ±2^53, lone
surrogates, nesting deeper than 64, anything but UTF-8. Source: RFC 8259 §4 and §8, RFC 7493 (I-JSON) §2.
"""

import json
import math
import re
from typing import Any

MAX_DEPTH = 64
MAX_INTEGER = 2**53
_MAX_NUMBER_CHARS = 400
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_AS_BRACES = bytes.maketrans(b"[]", b"{}")
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
    """Removes innermost pairs level by level; what is balanced and left after the last level is too deep."""
    brackets = _STRING.sub(b"", raw).translate(_AS_BRACES, _NOT_BRACKETS)
    for _ in range(MAX_DEPTH):
        fewer = brackets.replace(b"{}", b"")
        if len(fewer) == len(brackets):
            break
        brackets = fewer
    if brackets and brackets.count(b"{") == brackets.count(b"}"):
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
