"""Whether a JSON value follows a schema: the part of JSON Schema 2020-12 that requests for structured output use.

In its own words, since a validator here must be pure, bounded and linear in time: a schema comes from a client.
What is not known is said (`Unjudged`), never passed over; tests compare it with the `jsonschema` package.
"""

from collections.abc import Callable
from typing import Any

from policies.guardrails.patterns import compiled, encoded

Judge = Callable[[Any, Any, "Judging"], bool]

_MOST_STEPS = 50_000
_DEEPEST = 64
_MOST_PATTERN_CHARS = 500
_ANNOTATIONS = frozenset(
    {
        "$schema",
        "$id",
        "$comment",
        "$anchor",
        "$defs",
        "definitions",
        "title",
        "description",
        "default",
        "examples",
    }
    | {"deprecated", "readOnly", "writeOnly", "format", "contentEncoding", "contentMediaType", "name", "strict"}
)


class Unjudged(ValueError):  # noqa: N818  (no fault of the value's)
    """The schema has a keyword that is not known here, or asks for too much work."""


class Judging:
    """One value's judgement: the whole schema for references, and the steps that are left."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.steps = _MOST_STEPS
        self.depth = 0

    def fits(self, value: Any, schema: Any) -> bool:
        """Whether the value follows the schema.

        Raises:
            Unjudged: see there.
        """
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise Unjudged("schema")
        self.steps -= 1
        self.depth += 1
        try:
            if self.steps < 0 or self.depth > _DEEPEST:
                raise Unjudged("work")
            return all(self._fits_keyword(value, schema, name) for name in schema)
        finally:
            self.depth -= 1

    def _fits_keyword(self, value: Any, schema: Any, name: str) -> bool:
        if name in _ANNOTATIONS:
            return True
        judge = _KEYWORDS.get(name)
        if judge is None:
            raise Unjudged("keyword")
        return judge(value, schema, self)


def follows(value: Any, schema: Any) -> bool:
    """Whether the value follows the schema.

    Raises:
        Unjudged: the schema asks for what is not known here.
    """
    return Judging(schema).fits(value, schema)


def _kinds(value: Any) -> set[str]:
    if value is None:
        return {"null"}
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, int | float):
        return {"number", "integer"} if float(value).is_integer() else {"number"}
    return {"string"} if isinstance(value, str) else {"array"} if isinstance(value, list) else {"object"}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(one: Any, other: Any) -> bool:
    """Equality of JSON: 1 is 1.0, but true is not 1."""
    if _is_number(one) and _is_number(other):
        return bool(one == other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    return type(one) is type(other) and bool(one == other)


def _type(value: Any, schema: Any, _judging: Judging) -> bool:
    wanted = schema["type"]
    return bool(_kinds(value) & set(wanted if isinstance(wanted, list) else [wanted]))


def _properties(value: Any, schema: Any, judging: Judging) -> bool:
    named = schema["properties"]
    if not isinstance(value, dict):
        return True
    return all(judging.fits(value[name], each) for name, each in named.items() if name in value)


def _additional(value: Any, schema: Any, judging: Judging) -> bool:
    if not isinstance(value, dict):
        return True
    named = schema.get("properties", {})
    if "patternProperties" in schema:
        raise Unjudged("keyword")
    return all(judging.fits(value[name], schema["additionalProperties"]) for name in value if name not in named)


def _prefix_items(value: Any, schema: Any, judging: Judging) -> bool:
    return not isinstance(value, list) or all(map(judging.fits, value, schema["prefixItems"]))


def _items(value: Any, schema: Any, judging: Judging) -> bool:
    if not isinstance(value, list):
        return True
    rest = value[len(schema.get("prefixItems", ())) :]
    return all(judging.fits(item, schema["items"]) for item in rest)


def _unique(value: Any, schema: Any, judging: Judging) -> bool:
    if not isinstance(value, list) or not schema["uniqueItems"]:
        return True
    judging.steps -= len(value) * len(value)
    if judging.steps < 0:
        raise Unjudged("work")
    return not any(_same(one, other) for place, one in enumerate(value) for other in value[:place])


def _pattern(value: Any, schema: Any, _judging: Judging) -> bool:
    if not isinstance(value, str):
        return True
    pattern = schema["pattern"]
    if not isinstance(pattern, str) or not pattern.isascii() or len(pattern) > _MOST_PATTERN_CHARS:
        raise Unjudged("pattern")
    try:
        return compiled(pattern, ignore_case=False).search(encoded(value)) is not None
    except Exception as error:  # the library's own type is not exported under one name
        raise Unjudged("pattern") from error


def _ref(value: Any, schema: Any, judging: Judging) -> bool:
    path = schema["$ref"]
    if not isinstance(path, str) or not path.startswith("#"):
        raise Unjudged("reference")
    found = judging.root
    for step in path[1:].split("/")[1:]:
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return judging.fits(value, found)


def _bound(kind: type | tuple[type, ...], holds: Callable[[Any, Any], bool], name: str) -> Judge:
    def judge(value: Any, schema: Any, _judging: Judging) -> bool:
        return not isinstance(value, kind) or isinstance(value, bool) or holds(value, schema[name])

    return judge


def _multiple(value: float, step: float) -> bool:
    parts = value / step
    return abs(parts - round(parts)) < 1e-9  # noqa: PLR2004  (0.3 is three times 0.1)


_NUMBER = (int, float)
_KEYWORDS: dict[str, Judge] = {
    "type": _type,
    "enum": lambda value, schema, _: any(_same(value, each) for each in schema["enum"]),
    "const": lambda value, schema, _: _same(value, schema["const"]),
    "properties": _properties,
    "additionalProperties": _additional,
    "required": _bound(dict, lambda value, names: all(name in value for name in names), "required"),
    "minProperties": _bound(dict, lambda value, least: len(value) >= least, "minProperties"),
    "maxProperties": _bound(dict, lambda value, most: len(value) <= most, "maxProperties"),
    "prefixItems": _prefix_items,
    "items": _items,
    "minItems": _bound(list, lambda value, least: len(value) >= least, "minItems"),
    "maxItems": _bound(list, lambda value, most: len(value) <= most, "maxItems"),
    "uniqueItems": _unique,
    "minLength": _bound(str, lambda value, least: len(value) >= least, "minLength"),
    "maxLength": _bound(str, lambda value, most: len(value) <= most, "maxLength"),
    "pattern": _pattern,
    "minimum": _bound(_NUMBER, lambda value, least: value >= least, "minimum"),
    "maximum": _bound(_NUMBER, lambda value, most: value <= most, "maximum"),
    "exclusiveMinimum": _bound(_NUMBER, lambda value, least: value > least, "exclusiveMinimum"),
    "exclusiveMaximum": _bound(_NUMBER, lambda value, most: value < most, "exclusiveMaximum"),
    "multipleOf": _bound(_NUMBER, _multiple, "multipleOf"),
    "anyOf": lambda value, schema, judging: any(judging.fits(value, each) for each in schema["anyOf"]),
    "allOf": lambda value, schema, judging: all(judging.fits(value, each) for each in schema["allOf"]),
    "oneOf": lambda value, schema, judging: sum(judging.fits(value, each) for each in schema["oneOf"]) == 1,
    "not": lambda value, schema, judging: not judging.fits(value, schema["not"]),
    "$ref": _ref,
}
