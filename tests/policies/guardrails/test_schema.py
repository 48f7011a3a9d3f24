"""Answers against the schema that was asked for, beside the `jsonschema` package's judgement."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.guardrails.json_schema import Unjudged, follows
from policies.guardrails.schema import SchemaGuard
from policies.guardrails.types import Material, Subject

GUARD = SchemaGuard(Material("refuse"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([0.5, 1.0, -2.0]) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
KINDS = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
SMALL = st.integers(0, 3)


def _wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": KINDS | st.lists(KINDS, min_size=1, max_size=2, unique=True),
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
            "additionalProperties": inner,
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
        },
    )


PLAIN = st.fixed_dictionaries(
    {},
    optional={
        "type": KINDS,
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "minLength": SMALL,
        "maxLength": SMALL,
        "minimum": SMALL,
        "exclusiveMaximum": SMALL,
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minItems": SMALL,
        "maxItems": SMALL,
        "uniqueItems": st.booleans(),
        "minProperties": SMALL,
        "maxProperties": SMALL,
        "pattern": st.sampled_from(["^a", "b$", "a+b"]),
    },
)
SCHEMAS = st.recursive(st.booleans() | PLAIN, _wider, max_leaves=6)


@given(value=VALUES, schema=SCHEMAS)
def test_judges_as_the_reference_does(value: Any, schema: Any) -> None:
    assert follows(value, schema) == jsonschema.Draft202012Validator(schema).is_valid(value)


def subject(answer: str, schema: object) -> Subject:
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    return Subject("q", answer_texts=(answer,), content_texts=(answer,), response_format=wanted)


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"$ref": "#/$defs/age"}},
    "required": ["name", "age"],
    "additionalProperties": False,
    "$defs": {"age": {"type": "integer", "minimum": 0}},
}


@pytest.mark.parametrize(
    ("answer", "schema", "reason"),
    [
        ('{"name": "Ann", "age": 3}', PERSON, None),
        ('{"name": "Ann"}', PERSON, "schema_mismatch"),
        ('{"name": "Ann", "age": -1}', PERSON, "schema_mismatch"),
        ('{"name": "Ann", "age": 3, "x": 1}', PERSON, "schema_mismatch"),
        ('{"name": "Ann", "age": true}', PERSON, "schema_mismatch"),
        ('{"name": ', PERSON, "schema_invalid_json"),
        ("1", {"if": True}, "schema_unjudged"),
        ("1", {"$ref": "https://elsewhere.example/schema"}, "schema_unjudged"),
        ("1", {"$ref": "#"}, "schema_unjudged"),
        ("1", {"type": ["integer", {}]}, "schema_unjudged"),
        ('"a"', {"pattern": "(?=a)a"}, "schema_unjudged"),
        ('"' + "a" * 50 + '"', {"pattern": "(a+)+$"}, None),
        ("1", [], "schema_unjudged"),
    ],
)
def test_every_refusal_has_its_reason(answer: str, schema: object, reason: str | None) -> None:
    verdict = GUARD.check(subject(answer, schema))
    assert (verdict.reason if verdict else None) == reason


def test_other_formats_are_not_judged() -> None:
    for wanted in (None, {"type": "text"}, {"type": "json_object"}, {"type": "json_schema"}, {"type": 1}):
        assert GUARD.check(Subject("q", content_texts=("x",), response_format=wanted)) is None


def test_work_is_bounded() -> None:
    schema = {"uniqueItems": True}
    with pytest.raises(Unjudged):
        follows(list(range(2_000)), schema)
    deep: dict[str, Any] = {}
    for _ in range(200):
        deep = {"anyOf": [deep]}
    with pytest.raises(Unjudged):
        follows(1, deep)
    assert GUARD.check(subject(json.dumps(list(range(2_000))), schema)) is not None
