"""How model families spell a tool call, by table, and the grammar that makes one follow its schema."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from engine.errors import RequestError
from engine.grammar.contract import GrammarKind, GrammarSpec
from engine.grammar.schema_bounds import too_hard
from engine.protocol.fields import json_text
from engine.protocol.tools import Tool, ToolUse, ToolWishes

_WHITESPACE = r"[\x20\x0A\x0D\x09]{1,16}"


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """One spelling of calls: `{"name": NAME, KEY: {...}}` between two texts.

    Attributes:
        opening: text before a call; empty when an answer is calls from its first character or none at all.
        closing: text after a call's last brace.
        between: what may stand between two calls.
        key: the name under which the arguments go.
        signs: patterns that all occur in a chat template which teaches this spelling, and in no other.
    """

    opening: str
    closing: str
    between: str
    key: str
    signs: tuple[str, ...]


TOOL_FORMATS = {
    "hermes": ToolFormat(
        "<tool_call>\n", "\n</tool_call>", "\n", "arguments", ("<tool_call>", r'\\?"arguments\\?":')
    ),
    "llama3_json": ToolFormat("", "", "; ", "parameters", ("ipython", r'\\?"parameters\\?":')),
}
"""By the names vLLM gives its parsers. Hermes is what Hermes and Qwen write; the order is that of recognition."""


def find_format(template_source: str) -> ToolFormat | None:
    """Recognise the spelling a chat template teaches its model."""
    return next(
        (one for one in TOOL_FORMATS.values() if all(re.search(sign, template_source) for sign in one.signs)), None
    )


def call_grammar(spelling: ToolFormat, wishes: ToolWishes, content: GrammarSpec | None) -> GrammarSpec | None:
    """Build the grammar that a request about tools asks for; None when the answer is free.

    Calls are enforced where one is required or a function is strict; beside a schema for the answer's text, the
    answer is either that or calls.

    Args:
        spelling: of the model.
        wishes: not `ToolUse.NONE`.
        content: what an answer without calls must follow.

    Raises:
        RequestError: 400, when a schema is too hard, or `content` cannot stand beside tools.
    """
    free = wishes.use is ToolUse.AUTO and content is None
    if free and not any(tool.strict for tool in wishes.offered):
        return None
    repeated = f"({_text(spelling.between)} call)*" if wishes.parallel else ""
    rules = [
        f"calls: call {repeated}",
        f"call: {_text(spelling.opening)} body",
        *_body_rules(spelling, wishes.offered),
    ]
    if wishes.use is ToolUse.REQUIRED:
        rules.append("start: calls")
    elif content is not None:
        rules += ["start: calls | content", f"content: %json {_content_schema(content)}"]
    elif not spelling.opening:
        rules += ["start: calls | SAID?", r"SAID: /[^\s{](.|\n)*/"]
    else:
        # A lazy rule ends where its text first appears, so a call begins there and nowhere else.
        rules += [
            f"start: hailed{'*' if wishes.parallel else '?'} said",
            "hailed: hail body",
            f"hail[lazy]: SAID {_text(spelling.opening)}",
            "said: SAID",
            r"SAID: /(.|\n)*/",
        ]
    return GrammarSpec(GrammarKind.LARK, "\n".join(rules), "tools")


def _body_rules(spelling: ToolFormat, tools: tuple[Tool, ...]) -> list[str]:
    names = " | ".join(f"call_{index}" for index in range(len(tools)))
    rules = [f"body: ({names}) {_text(spelling.closing)}"]
    for index, tool in enumerate(tools):
        head = f'{{"name": "{tool.name}", "{spelling.key}": '
        rules += [
            f"call_{index}: {_text(head)} arguments_{index} {_text('}')}",
            f"arguments_{index}: %json {_arguments_schema(tool)}",
        ]
    return rules


def _arguments_schema(tool: Tool) -> str:
    schema = _bounded(tool.field, tool.parameters, lenient=not tool.strict)
    if fault := too_hard(schema):
        message = f"Invalid '{tool.field}': the grammar cannot be enforced: {fault}."
        raise RequestError(400, message, code="invalid_value", param=tool.field)
    return schema


def _content_schema(content: GrammarSpec) -> str:
    if content.kind is not GrammarKind.JSON_SCHEMA:
        message = f"'{content.field}' cannot be used together with 'tools'."
        raise RequestError(400, message, code="invalid_value", param=content.field)
    if fault := too_hard(content.source):
        message = f"Invalid '{content.field}': the grammar cannot be enforced: {fault}."
        raise RequestError(400, message, code="invalid_value", param=content.field)
    schema = orjson.loads(content.source)
    if not isinstance(schema, dict):
        return content.source
    return _bounded(content.field, schema, lenient=not content.strict)


def _bounded(field: str, schema: Mapping[str, Any], lenient: bool) -> str:
    options = {"whitespace_pattern": _WHITESPACE, "lenient": lenient}
    return json_text(field, {**schema, "x-guidance": options})


def _text(text: str) -> str:
    return orjson.dumps(text).decode() if text else ""
