"""Where an answer may end, where it must, and what a grammar makes of a model that knows none."""

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.events import FinishReason, TokenEvent
from engine.grammar.contract import GrammarKind, GrammarSpec
from engine.grammar.llguidance_grammar import LlguidanceCompiler
from engine.runner import Runner
from engine.sampling import SamplingParams
from engine.sequence import Sequence
from tests.engine import tiny
from tests.engine.fakes import ScriptedRunner, build_core, byte_tokenizer, script
from tests.engine.test_core import drain, params, run

VOCAB = 300


@pytest.fixture(scope="module")
def compiler() -> LlguidanceCompiler:
    return LlguidanceCompiler(byte_tokenizer(), frozenset([tiny.EOS_ID]))


def follow(
    token: Callable[[Sequence], int | None], grammar: GrammarSpec, compiler: LlguidanceCompiler, **wishes: object
) -> tuple[str, TokenEvent]:
    core = build_core(ScriptedRunner(VOCAB, token))
    sequence = tiny.new_sequence(0, (5, 6, 7), params(**wishes))
    sequence.grammar = compiler.compile(grammar)
    core.add(sequence)
    events = drain(core)
    return "".join(event.text for event in events), events[-1]


def regex(source: str) -> GrammarSpec:
    return GrammarSpec(GrammarKind.REGEX, source, "guided_regex")


def test_nothing_is_generated_where_nothing_is_asked_for() -> None:
    text, last = run("hello", params(max_tokens=0))
    assert (text, last.finish, last.num_output, last.tokens) == ("", FinishReason.LENGTH, 0, ())


def test_an_end_token_waits_for_min_tokens() -> None:
    """vllm#51299: and where the length is reached first, it ends the answer."""
    text, last = run("hi", params(min_tokens=5))
    assert (text[:2], last.finish, last.num_output) == ("hi", FinishReason.STOP, 6)
    assert run("hi", params(min_tokens=5, max_tokens=5))[1].finish is FinishReason.LENGTH


@pytest.mark.parametrize(("min_tokens", "text", "count"), [(1, "", 2), (2, "ab", 4), (3, "ab", 4), (4, "abab", 6)])
def test_a_stop_string_waits_for_min_tokens(min_tokens: int, text: str, count: int) -> None:
    said, last = run("ababab", params(min_tokens=min_tokens, stop=("ab",)))
    assert (said, last.num_output) == (text, count)


def test_a_stop_token_id_counts_although_end_tokens_do_not() -> None:
    _, last = run("abc", params(ignore_eos=True, stop_token_ids=frozenset({tiny.EOS_ID}), max_tokens=6))
    assert last.finish is FinishReason.LENGTH
    text, last = run("xyz", params(ignore_eos=True, stop_token_ids=frozenset({68})), end=68)
    assert (text, last.finish) == ("xyz", FinishReason.STOP)


def test_a_grammar_overrules_the_model_and_ends_the_answer(compiler: LlguidanceCompiler) -> None:
    """The model wants to say something else, and then to go on for ever; no end token is spent on it."""
    text, last = follow(script("Sure!", end=65), regex("(yes|no)"), compiler)
    assert (text, last.finish) in {("yes", FinishReason.STOP), ("no", FinishReason.STOP)}
    assert last.num_output == len(text)


def test_an_end_token_is_taken_as_soon_as_the_grammar_allows(compiler: LlguidanceCompiler) -> None:
    text, last = follow(script(""), regex("a{3,9}"), compiler)
    assert (text, last.finish, last.num_output) == ("aaa", FinishReason.STOP, 4)
    text, last = follow(script(""), regex("a{3,9}"), compiler, min_tokens=5)
    assert (text, last.num_output) == ("aaaaa", 6)


def test_a_grammar_survives_being_preempted_and_computed_again(compiler: LlguidanceCompiler) -> None:
    """Tokens computed again are not accepted again."""
    config = tiny.small_config(kv_tokens=40, max_running=2)
    core = build_core(ScriptedRunner(VOCAB, script("", end=65)), config)
    spec = GrammarSpec(GrammarKind.REGEX, "(ab){12}", "guided_regex")
    for number in range(2):
        sequence = tiny.new_sequence(number, (5, 6, 7), params(max_tokens=24))
        sequence.grammar = compiler.compile(spec)
        core.add(sequence)
    events = drain(core)
    said = ["".join(event.text for event in events if event.seq_id == number) for number in range(2)]
    assert said == ["ab" * 12] * 2
    assert core.scheduler.has_work is False


LEAVES = st.sampled_from(
    [
        {"type": "integer", "minimum": -5, "maximum": 300},
        {"type": "string", "maxLength": 6},
        {"type": "string", "pattern": "^[a-c]{1,3}$"},
        {"type": "boolean"},
        {"type": "null"},
        {"enum": ["red", 7, None, "grün"]},
        {"const": {"a": [1, "x"]}},
    ]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items, "minItems": 1, "maxItems": 2}, inner),
        st.builds(lambda first, second: {"anyOf": [first, second]}, inner, inner),
        st.builds(
            lambda parts: {
                "type": "object",
                "properties": parts,
                "required": sorted(parts)[:1],
                "additionalProperties": False,
            },
            st.dictionaries(st.sampled_from(["a", "b", "größe"]), inner, min_size=1, max_size=3),
        ),
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def runner(tiny_folder: Path) -> Runner:
    return tiny.build_runner(tiny_folder, tiny.small_config())[1]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(schema=SCHEMAS, seed=st.integers(0, 10**6))
def test_a_random_models_answer_is_valid_or_cut_by_its_length(
    runner: Runner, compiler: LlguidanceCompiler, schema: dict[str, object], seed: int
) -> None:
    core = build_core(runner, tiny.small_config())
    wishes = SamplingParams(max_tokens=60, temperature=1.0, top_p=0.95, seed=seed)
    sequence = tiny.new_sequence(0, (5, 6, 7), wishes)
    sequence.grammar = compiler.compile(
        GrammarSpec(GrammarKind.JSON_SCHEMA, json.dumps(schema), "response_format")
    )
    core.add(sequence)
    events = drain(core)
    text = "".join(event.text for event in events)
    if events[-1].finish is FinishReason.STOP:
        jsonschema.validate(json.loads(text), schema)
    else:
        assert events[-1].finish is FinishReason.LENGTH
    assert "".join(event.text for event in events) == byte_tokenizer().decode(
        token.token_id for event in events for token in event.tokens
    )
