"""Reading one field of a JSON body: the value, a default, or a 400 that names the field."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import RequestError


@dataclass(frozen=True, slots=True)
class Range:
    """Inclusive bounds of a number."""

    low: float
    high: float


def bad_field(name: str, message: str) -> RequestError:
    """Build the 400 for one field."""
    return RequestError(400, f"Invalid '{name}': {message}.", code="invalid_value", param=name)


def read_int(body: Mapping[str, Any], name: str, bounds: Range, default: int) -> int:
    """Read a whole number; null means absent; true is no number."""
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise bad_field(name, "must be an integer")
    return int(_bounded(name, value, bounds))


def read_float(body: Mapping[str, Any], name: str, bounds: Range, default: float) -> float:
    """Read a number; null means absent; true is no number."""
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad_field(name, "must be a number")
    return float(_bounded(name, value, bounds))


def read_bool(body: Mapping[str, Any], name: str) -> bool:
    """Read a flag; null and absent are false."""
    value = body.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise bad_field(name, "must be true or false")
    return value


def read_str(body: Mapping[str, Any], name: str, max_chars: int) -> str | None:
    """Read a text of 1 to `max_chars` characters; None when absent or null."""
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not 1 <= len(value) <= max_chars:
        raise bad_field(name, f"must be a string of 1 to {max_chars} characters")
    return value


def _bounded(name: str, value: float, bounds: Range) -> float:
    if not bounds.low <= value <= bounds.high:
        raise bad_field(name, f"must be between {bounds.low:g} and {bounds.high:g}")
    return value
