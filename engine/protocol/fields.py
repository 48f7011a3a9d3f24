"""Reading one field of a JSON body: the value, a default, or a 400 that names the field."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from engine.errors import RequestError


@dataclass(frozen=True, slots=True)
class Range:
    """Inclusive bounds of a number."""

    low: float
    high: float


def bad_field(name: str, message: str) -> RequestError:
    """Build the 400 for one field."""
    return RequestError(400, f"Invalid '{name}': {message}.", code="invalid_value", param=name)


def refuse_unheard(body: Mapping[str, Any], neutral: Mapping[str, tuple[Any, ...]]) -> None:
    """Refuse fields the engine does not carry out, where ignoring them would change the answer.

    Args:
        body: the request.
        neutral: those fields, with the values besides null that ask for nothing.
    """
    for name, harmless in neutral.items():
        value = body.get(name)
        if value is not None and value not in harmless:
            message = f"'{name}' is not supported by this model, and ignoring it would change the answer."
            raise RequestError(400, message, code="unsupported_parameter", param=name)


def read_model(body: Any) -> Mapping[str, Any]:
    """Check that a body is an object that names a model, and return it."""
    if not isinstance(body, dict):
        raise RequestError(400, "The request body must be a JSON object.")
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise RequestError(400, "You must provide a model parameter.", param="model")
    return body


def json_text(name: str, value: Any) -> str:
    """Write a value of a body back as JSON, or refuse it for its depth."""
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError as error:
        raise bad_field(name, "is nested too deep") from error


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
