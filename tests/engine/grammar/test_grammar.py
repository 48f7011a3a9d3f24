"""A grammar lets through what it describes, only that, and an end only where it may end."""

import json

import numpy as np
import pytest

from engine.errors import RequestError
from engine.grammar.contract import Grammar, GrammarKind, GrammarSpec
from engine.grammar.llguidance_grammar import LlguidanceCompiler
from tests.engine import tiny
from tests.engine.fakes import byte_tokenizer

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def compiler() -> LlguidanceCompiler:
    return LlguidanceCompiler(byte_tokenizer(), frozenset([tiny.EOS_ID]))


def schema(value: object, strict: bool = True) -> GrammarSpec:
    return GrammarSpec(GrammarKind.JSON_SCHEMA, json.dumps(value), "response_format", strict)


def regex(source: str) -> GrammarSpec:
    return GrammarSpec(GrammarKind.REGEX, source, "guided_regex")


def run(grammar: Grammar, text: str) -> int:
    """How many tokens of a text are allowed, one after the other."""
    for count, token_id in enumerate(byte_tokenizer().encode(text)):
        if not grammar.allowed()[token_id]:
            return count
        assert grammar.accept(token_id)
    return len(byte_tokenizer().encode(text))


def follows(grammar: Grammar, text: str) -> bool:
    return run(grammar, text) == len(byte_tokenizer().encode(text))


def test_a_schema_is_followed_to_its_end(compiler: LlguidanceCompiler) -> None:
    grammar = compiler.compile(schema(SCHEMA))
    assert follows(grammar, '{"name": "Zoé 🙂", ')
    assert not grammar.finished
    assert not grammar.allowed()[tiny.EOS_ID]
    assert follows(grammar, '"age": 7}')
    assert grammar.finished
    assert np.flatnonzero(grammar.allowed()).tolist() == [tiny.EOS_ID]


@pytest.mark.parametrize(
    "text", ['{"name": 7', '{"age"', "[", "Sure! {", '{"name": "a", "age": 1, "x"', ' {"name"']
)
def test_what_breaks_a_schema_is_not_allowed(compiler: LlguidanceCompiler, text: str) -> None:
    assert not follows(compiler.compile(schema(SCHEMA)), text)


def test_the_end_waits_for_an_accepting_place(compiler: LlguidanceCompiler) -> None:
    """vllm#42403: the end token must not escape the mask."""
    grammar = compiler.compile(regex("ab+"))
    assert follows(grammar, "a")
    assert not grammar.allowed()[tiny.EOS_ID]
    assert follows(grammar, "b")
    assert grammar.allowed()[tiny.EOS_ID]
    assert not grammar.finished
    assert grammar.allowed().sum() > 1


def test_white_space_is_bounded(compiler: LlguidanceCompiler) -> None:
    """vllm#44006 and kin."""
    assert follows(compiler.compile(schema(SCHEMA)), "{" + " " * 16 + '"name"')
    assert not follows(compiler.compile(schema(SCHEMA)), "{" + " " * 17)
    assert not follows(compiler.compile(schema({})), " \n" * 9)


def test_control_tokens_are_never_text(compiler: LlguidanceCompiler) -> None:
    grammar = compiler.compile(regex("(.|\n)*"))
    assert np.flatnonzero(grammar.allowed()[: len(tiny.SPECIALS)]).tolist() == [tiny.EOS_ID]
    assert not compiler.compile(regex("<.im_start.>")).allowed()[1]


def test_forks_go_their_own_ways(compiler: LlguidanceCompiler) -> None:
    grammar = compiler.compile(regex("a(b|c)d"))
    assert follows(grammar, "a")
    other = grammar.fork()
    assert follows(grammar, "bd")
    assert follows(other, "cd")
    assert follows(compiler.compile(regex("a(b|c)d")), "ac"), "a grammar compiled before starts at its beginning"


def test_a_token_that_is_not_allowed_fails_the_grammar(compiler: LlguidanceCompiler) -> None:
    grammar = compiler.compile(regex("a"))
    assert not grammar.accept(byte_tokenizer().encode("b")[0])
    assert not grammar.allowed().any()
    assert grammar.finished


def test_lark_grammars_may_hold_schemas(compiler: LlguidanceCompiler) -> None:
    source = 'start: "<call>" body "</call>"\nbody: %json ' + json.dumps(SCHEMA)
    grammar = compiler.compile(GrammarSpec(GrammarKind.LARK, source, "guided_grammar"))
    assert follows(grammar, '<call>{"name":"a","age":1}</call>')
    assert grammar.finished


@pytest.mark.parametrize(
    "spec",
    [
        schema({"type": "nothing"}),
        schema({"type": "string", "not": {"const": "a"}}),
        schema({"$ref": "http://example.com/schema"}),
        schema({"$ref": "#"}),
        schema({"allOf": [{"$ref": "#"}, {"type": "integer"}]}),
        schema({"type": "integer", "multipleOf": 1000003}),
        schema({"type": "number", "multipleOf": 0.00001}),
        schema({"type": "object", "properties": {f"p{i}": {"type": "integer"} for i in range(1001)}}),
        schema({"enum": ["x" * 70_000]}),
        schema({"allOf": [{"anyOf": [{"properties": {f"a{i}": {"type": "null"}}} for i in range(9)]}] * 9}),
        regex("(a|b"),
        regex("(?=a)b"),
        regex("(" * 5000 + "a" + ")" * 5000),
        GrammarSpec(GrammarKind.LARK, "start: nowhere", "guided_grammar"),
        GrammarSpec(GrammarKind.LARK, "start: start", "guided_grammar"),
        GrammarSpec(GrammarKind.LARK, "start: " + "(" * 9000 + '"a"' + ")" * 9000, "guided_grammar"),
    ],
)
def test_what_cannot_be_enforced_is_a_400_that_names_the_field(
    compiler: LlguidanceCompiler, spec: GrammarSpec
) -> None:
    with pytest.raises(RequestError) as caught:
        compiler.compile(spec)
    assert (caught.value.status, caught.value.param) == (400, spec.field)
    assert len(caught.value.message) < 400


def test_depth_is_bounded(compiler: LlguidanceCompiler) -> None:
    deep = '{"items":' * 200 + "{}" + "}" * 200
    with pytest.raises(RequestError, match="nested deeper"):
        compiler.compile(GrammarSpec(GrammarKind.JSON_SCHEMA, deep, "response_format"))


def test_a_lenient_schema_leaves_out_what_cannot_be_enforced(compiler: LlguidanceCompiler) -> None:
    grammar = compiler.compile(schema({"type": "array", "uniqueItems": True}, strict=False))
    assert follows(grammar, "[1,1]")
