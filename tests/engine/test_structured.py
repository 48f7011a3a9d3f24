"""What an answer must follow, from every field that may say so; and tools."""

import json

import pytest

from engine.errors import RequestError
from engine.grammar.contract import GrammarKind, GrammarSpec
from engine.grammar.llguidance_grammar import LlguidanceCompiler
from engine.protocol.structured import read_grammar
from engine.protocol.tool_formats import TOOL_FORMATS, call_grammar
from engine.protocol.tools import ToolUse, ToolWishes, read_tools
from tests.engine import tiny
from tests.engine.fakes import byte_tokenizer
from tests.engine.grammar.test_grammar import follows

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}
DEEP = json.loads('{"items":' * 300 + "{}" + "}" * 300)
HERMES, LLAMA = TOOL_FORMATS["hermes"], TOOL_FORMATS["llama3_json"]


def tool(name: str, parameters: object = None, **more: object) -> dict[str, object]:
    return {"type": "function", "function": {"name": name, "parameters": parameters} | more}


@pytest.mark.parametrize(
    ("body", "kind", "field", "strict"),
    [
        ({"response_format": {"type": "json_object"}}, "json_schema", "response_format", True),
        ({"response_format": FORMAT}, "json_schema", "response_format.json_schema.schema", True),
        ({"structured_outputs": {"json": SCHEMA}}, "json_schema", "structured_outputs.json", True),
        ({"structured_outputs": {"json_object": True}}, "json_schema", "structured_outputs.json_object", True),
        ({"structured_outputs": {"regex": "a+", "choice": None}}, "regex", "structured_outputs.regex", True),
        ({"guided_json": json.dumps(SCHEMA)}, "json_schema", "guided_json", True),
        ({"guided_regex": "a+"}, "regex", "guided_regex", True),
        ({"guided_choice": ["a", 'b"\n']}, "lark", "guided_choice", True),
        ({"guided_grammar": 'start: "a"'}, "lark", "guided_grammar", True),
    ],
)
def test_every_field_is_read(body: dict[str, object], kind: str, field: str, strict: bool) -> None:
    spec = read_grammar(body)
    assert spec is not None
    assert (spec.kind.value, spec.field, spec.strict) == (kind, field, strict)


def test_a_schema_not_called_strict_is_followed_as_far_as_it_can_be() -> None:
    spec = read_grammar({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}})
    assert spec == GrammarSpec(GrammarKind.JSON_SCHEMA, "{}", "response_format.json_schema.schema", strict=False)


def test_free_text_has_no_grammar() -> None:
    assert read_grammar({"response_format": {"type": "text"}, "guided_json": None}) is None


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"response_format": "json"}, "response_format.type"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": 7}}},
            "response_format.json_schema",
        ),
        ({"structured_outputs": []}, "structured_outputs"),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"json": {}, "regex": "a"}}, "structured_outputs"),
        ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag"),
        ({"guided_json": "{"}, "guided_json"),
        ({"guided_json": DEEP}, "guided_json"),
        ({"guided_regex": ""}, "guided_regex"),
        ({"guided_choice": []}, "guided_choice"),
        ({"guided_choice": [1]}, "guided_choice"),
        ({"guided_grammar": "root ::= x"}, "guided_grammar"),
        ({"guided_regex": "a", "response_format": {"type": "json_object"}}, "guided_regex"),
    ],
)
def test_what_is_malformed_names_its_field(body: dict[str, object], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_grammar(body)
    assert caught.value.status == 400
    assert (caught.value.param or "").startswith(param)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"tools": "f"}, "tools"),
        ({"tools": [{}]}, "tools[0]"),
        ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools[0]"),
        ({"tools": [tool("f"), tool("no good")]}, "tools[1].function.name"),
        ({"tools": [tool("f", "x")]}, "tools[0].function.parameters"),
        ({"tools": [tool("f", strict="yes")]}, "strict"),
        ({"tools": [tool("f")] * 129}, "tools"),
        ({"tools": [tool("f")], "tool_choice": "always"}, "tool_choice"),
        ({"tools": [tool("f")], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [tool("f")], "parallel_tool_calls": 1}, "parallel_tool_calls"),
    ],
)
def test_bad_tools_name_their_field(body: dict[str, object], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_tools(body)
    assert (caught.value.status, caught.value.param) == (400, param)


def test_what_tool_choice_means() -> None:
    tools = [tool("f"), tool("g")]
    assert read_tools({}) == read_tools({"tools": tools, "tool_choice": "none"}) == ToolWishes()
    assert read_tools({"tools": tools}).use is ToolUse.AUTO
    assert read_tools({"tools": tools, "tool_choice": "required"}).use is ToolUse.REQUIRED
    named = read_tools({"tools": tools, "tool_choice": {"type": "function", "function": {"name": "g"}}})
    assert ([one.name for one in named.offered], named.use, named.parallel) == (["g"], ToolUse.REQUIRED, False)
    assert not read_tools({"tools": tools, "parallel_tool_calls": False}).parallel


@pytest.fixture(scope="module")
def compiler() -> LlguidanceCompiler:
    return LlguidanceCompiler(byte_tokenizer(), frozenset([tiny.EOS_ID]))


REFERRING = {
    "type": "object",
    "properties": {"x": {"$ref": "#/$defs/n"}},
    "required": ["x"],
    "additionalProperties": False,
    "$defs": {"n": {"type": "integer"}},
}
CALL_F = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
CALL_G = '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>'


@pytest.mark.parametrize(
    ("body", "text", "allowed"),
    [
        ({"tool_choice": "required"}, CALL_F, True),
        ({"tool_choice": "required"}, f"{CALL_F}\n{CALL_G}", True),
        ({"tool_choice": "required"}, "I will", False),
        ({"tool_choice": "required"}, CALL_F.replace("1", '"one"'), False),
        ({"tool_choice": "required"}, CALL_F.replace('"f"', '"h"'), False),
        ({"tool_choice": "required", "parallel_tool_calls": False}, f"{CALL_F}\n<", False),
        ({"tool_choice": {"type": "function", "function": {"name": "g"}}}, CALL_G, True),
        ({"tool_choice": {"type": "function", "function": {"name": "g"}}}, CALL_F, False),
        ({}, f"Let me see: <b>.\n{CALL_F}\nDone", True),
        ({}, CALL_F.replace("1", '"one"'), False),
        ({}, CALL_F.replace('"f"', '"h"'), False),
        ({}, "no call at all", True),
    ],
)
def test_calls_are_held_to_their_schemas(
    compiler: LlguidanceCompiler, body: dict[str, object], text: str, allowed: bool
) -> None:
    wishes = read_tools({"tools": [tool("f", REFERRING, strict=True), tool("g")]} | body)
    spec = call_grammar(HERMES, wishes, None)
    assert spec is not None
    assert follows(compiler.compile(spec), text) == allowed


def test_llamas_calls_are_held_to_their_schemas_too(compiler: LlguidanceCompiler) -> None:
    wishes = read_tools({"tools": [tool("f", REFERRING)], "tool_choice": "required"})
    spec = call_grammar(LLAMA, wishes, None)
    assert spec is not None
    one = '{"name": "f", "parameters": {"x": 1}}'
    assert follows(compiler.compile(spec), f"{one}; {one}")
    assert not follows(compiler.compile(spec), '{"name": "f", "parameters": {"x": "a"}}')
    strict = call_grammar(LLAMA, read_tools({"tools": [tool("f", REFERRING, strict=True)]}), None)
    assert strict is not None
    assert follows(compiler.compile(strict), one)
    assert follows(compiler.compile(strict), "I see {it}")
    assert not follows(compiler.compile(strict), '{"name": "f", "parameters": {"x": "a"}}')


def test_an_answer_with_a_schema_may_call_instead(compiler: LlguidanceCompiler) -> None:
    wishes = read_tools({"tools": [tool("f", REFERRING)]})
    content = read_grammar({"response_format": FORMAT})
    spec = call_grammar(HERMES, wishes, content)
    assert spec is not None
    assert follows(compiler.compile(spec), '{"a": 1}')
    assert follows(compiler.compile(spec), CALL_F)
    with pytest.raises(RequestError, match="together"):
        call_grammar(HERMES, wishes, read_grammar({"guided_regex": "a"}))


def test_a_free_choice_between_lenient_tools_needs_no_grammar() -> None:
    assert call_grammar(HERMES, read_tools({"tools": [tool("f")]}), None) is None


def test_a_tool_that_is_too_hard_is_named() -> None:
    hard = {"type": "object", "properties": {"x": {"type": "integer", "multipleOf": 10**6}}}
    for parameters in (hard, DEEP):
        wishes = read_tools({"tools": [tool("g"), tool("f", parameters)], "tool_choice": "required"})
        with pytest.raises(RequestError) as caught:
            call_grammar(HERMES, wishes, None)
        assert caught.value.param == "tools[1].function.parameters"
