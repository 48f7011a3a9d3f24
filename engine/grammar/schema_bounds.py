"""What a JSON schema may ask for, so that compiling it stays short."""

from typing import Any

import orjson

MAX_SOURCE_BYTES = 64 * 1024
MAX_PROPERTIES = 1000
MAX_DEPTH = 100
MAX_MULTIPLE = 1000
"""A `multipleOf` costs a state per multiple."""


def too_hard(source: str) -> str | None:
    """Return why a schema is refused without trying; None when it may be tried.

    Args:
        source: JSON text.
    """
    properties = 0
    open_parts: list[tuple[Any, int]] = [(orjson.loads(source), 1)]
    while open_parts:
        part, depth = open_parts.pop()
        if depth > MAX_DEPTH:
            return f"it is nested deeper than {MAX_DEPTH}"
        if isinstance(part, list):
            open_parts += [(item, depth + 1) for item in part]
        elif isinstance(part, dict):
            named = part.get("properties")
            properties += len(named) if isinstance(named, dict) else 0
            if not _easy_multiple(part.get("multipleOf")):
                return f"a multipleOf must have at most 3 digits and be at most {MAX_MULTIPLE}"
            open_parts += [(item, depth + 1) for item in part.values()]
    return f"it names more than {MAX_PROPERTIES} properties" if properties > MAX_PROPERTIES else None


def _easy_multiple(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    scaled = value * MAX_MULTIPLE
    return 0 < value <= MAX_MULTIPLE and abs(scaled - round(scaled)) < 1 / MAX_MULTIPLE
