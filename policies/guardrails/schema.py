"""An answer that does not follow the JSON schema its request asked for: stored, it would be broken for all."""

from typing import ClassVar

import orjson

from policies.guardrails.json_schema import Unjudged, follows
from policies.guardrails.types import Action, Material, Subject, Verdict

_KIND = "json_schema"


class SchemaGuard:
    """Checks answers to requests with a `json_schema` response format.

    A schema that cannot be judged means that nothing is stored: the answer may be right, but nobody knows.
    """

    name: ClassVar[str] = "schema"
    version: ClassVar[str] = "1"
    default_action: ClassVar[Action] = "refuse"
    data_file: ClassVar[str] = ""
    of_questions: ClassVar[bool] = False

    def __init__(self, material: Material) -> None:
        self._action = material.action

    def check(self, subject: Subject) -> Verdict | None:
        """Every answer must follow; tool calls answer another question and are judged by the write gate."""
        wanted = subject.response_format
        if wanted is None or wanted.get("type") != _KIND:
            return None
        inner = wanted.get(_KIND)
        schema = inner.get("schema") if isinstance(inner, dict) else None
        if schema is None:
            return None
        for answer in subject.content_texts:
            reason = _refuse(answer, schema)
            if reason is not None:
                return Verdict(self.name, reason, self._action, {reason: 1})
        return None


def _refuse(answer: str, schema: object) -> str | None:
    try:
        value = orjson.loads(answer.encode("utf-8", "replace"))
    except orjson.JSONDecodeError:
        return "schema_invalid_json"
    try:
        return None if follows(value, schema) else "schema_mismatch"
    except (Unjudged, AttributeError, TypeError, ValueError, ArithmeticError, RecursionError):
        return "schema_unjudged"
