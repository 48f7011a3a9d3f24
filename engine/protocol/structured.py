"""Structured output as requests ask for it: `response_format`, and vLLM's `structured_outputs` and `guided_*`."""

from collections.abc import Mapping
from typing import Any

import orjson

from engine.errors import RequestError
from engine.grammar.contract import GrammarKind, GrammarSpec
from engine.protocol.fields import bad_field, json_text

_OBJECT = '{"type":"object"}'
_MAX_CHOICES = 1024


def read_grammar(body: Mapping[str, Any]) -> GrammarSpec | None:
    """Read what the answer must follow; None for free text.

    Raises:
        RequestError: 400 naming the field, when it is malformed or more than one of them asks for something.
    """
    found = [spec for spec in (_response_format(body), _structured(body), *_guided(body)) if spec is not None]
    if len(found) > 1:
        raise bad_field(found[1].field, f"cannot be used together with '{found[0].field}'")
    return found[0] if found else None


def _response_format(body: Mapping[str, Any]) -> GrammarSpec | None:
    wanted = body.get("response_format")
    if wanted is None:
        return None
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if kind == "text":
        return None
    if kind == "json_object":
        return GrammarSpec(GrammarKind.JSON_SCHEMA, _OBJECT, "response_format")
    if kind != "json_schema":
        raise bad_field("response_format.type", "must be 'text', 'json_object' or 'json_schema'")
    described = wanted.get("json_schema")
    if not isinstance(described, dict):
        raise bad_field("response_format.json_schema", "must be an object")
    field = "response_format.json_schema.schema"
    schema = described.get("schema")
    source = _OBJECT if schema is None else _schema_text(field, schema)
    return GrammarSpec(GrammarKind.JSON_SCHEMA, source, field, strict=described.get("strict") is True)


def _structured(body: Mapping[str, Any]) -> GrammarSpec | None:
    wanted = body.get("structured_outputs")
    if wanted is None:
        return None
    if not isinstance(wanted, dict):
        raise bad_field("structured_outputs", "must be an object")
    asked = {name: value for name, value in wanted.items() if value not in (None, False)}
    if len(asked) != 1:
        raise bad_field("structured_outputs", "must hold one of json, json_object, regex, choice or grammar")
    ((name, value),) = asked.items()
    field = f"structured_outputs.{name}"
    if name == "json_object" and value is True:
        return GrammarSpec(GrammarKind.JSON_SCHEMA, _OBJECT, field)
    if name not in _READERS:
        raise RequestError(400, f"'{field}' is not supported.", code="unsupported_parameter", param=field)
    return _READERS[name](field, value)


def _guided(body: Mapping[str, Any]) -> list[GrammarSpec]:
    return [
        read(f"guided_{name}", body[f"guided_{name}"])
        for name, read in _READERS.items()
        if body.get(f"guided_{name}") is not None
    ]


def _json(field: str, value: Any) -> GrammarSpec:
    return GrammarSpec(GrammarKind.JSON_SCHEMA, _schema_text(field, value), field)


def _regex(field: str, value: Any) -> GrammarSpec:
    if not isinstance(value, str) or not value:
        raise bad_field(field, "must be a regular expression")
    return GrammarSpec(GrammarKind.REGEX, value, field)


def _choice(field: str, value: Any) -> GrammarSpec:
    if not isinstance(value, list) or not 1 <= len(value) <= _MAX_CHOICES:
        raise bad_field(field, f"must be a list of 1 to {_MAX_CHOICES} strings")
    if not all(isinstance(choice, str) and choice for choice in value):
        raise bad_field(field, "each must be a string that is not empty")
    source = "start: " + " | ".join(orjson.dumps(choice).decode() for choice in value)
    return GrammarSpec(GrammarKind.LARK, source, field)


def _lark(field: str, value: Any) -> GrammarSpec:
    if not isinstance(value, str) or "start:" not in value:
        raise bad_field(field, "must be a Lark grammar with a rule 'start'")
    if "multipleOf" in value:
        raise bad_field(field, "must not use multipleOf")
    return GrammarSpec(GrammarKind.LARK, value, field)


_READERS = {"json": _json, "regex": _regex, "choice": _choice, "grammar": _lark}


def _schema_text(field: str, value: Any) -> str:
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise bad_field(field, "must be a JSON schema") from error
    if not isinstance(value, dict | bool):
        raise bad_field(field, "must be a JSON schema")
    return json_text(field, value)
