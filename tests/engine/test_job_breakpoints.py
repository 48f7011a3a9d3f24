"""A chat call's marks as breakpoints of its job: in tokens of the prompt, whatever stands behind them."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.chat_template import ChatTemplate
from engine.errors import RequestError
from engine.grammar.contract import GrammarSpec
from engine.kv.wishes import Breakpoint
from engine.loader import open_checkpoint
from engine.protocol.chat_request import read_chat_call
from engine.served_model import ServedModel
from engine.worker import Job

HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
MINUTES = {"cache_control": {"type": "ephemeral"}}


class NoGrammars:
    """Compiles nothing."""

    def compile(self, spec: GrammarSpec) -> Any:
        raise AssertionError(spec)


@pytest.fixture(scope="module")
def model(tiny_folder: Path) -> ServedModel:
    checkpoint = open_checkpoint(tiny_folder)
    return ServedModel("tiny", checkpoint.tokenizer, checkpoint.template, 1024, 16, 0, NoGrammars())


def job(model: ServedModel, messages: list[Any], **fields: Any) -> Job:
    return model.job(read_chat_call({"model": "tiny", "messages": messages, **fields}))


def part(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def test_marks_become_the_longest_common_beginnings(model: ServedModel) -> None:
    system = {"role": "system", "content": [part("Hello hello. ", **HOUR), part("Be kind.")]}
    made = job(model, [system, {"role": "user", "content": [part("Hi", **MINUTES)]}])
    first, second = made.cache.breakpoints
    text = model.tokenizer.decode
    assert text(made.prompt_ids[: first.tokens]) == "system\nHello hello. "
    assert text(made.prompt_ids[: second.tokens]) == "system\nHello hello. Be kind.\nuser\nHi"
    assert (first.ttl_s, second.ttl_s) == (3600, 300)


def test_a_mark_on_a_tool_keeps_the_tools_up_to_it(model: ServedModel) -> None:
    shows = "{% for tool in tools or [] %}<{{ tool.function.name }}>{{ tool | tojson }}{% endfor %}"
    spelling = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    template = ChatTemplate(shows + spelling + "{{ messages[0].content }}", {})
    knowing = ServedModel("tiny", model.tokenizer, template, 1024, 16, 0, NoGrammars())
    tools = [{"type": "function", "function": {"name": name}} for name in "abc"]
    messages = [{"role": "user", "content": "Hi"}]
    made = job(knowing, messages, tools=[tools[0], tools[1] | HOUR, tools[2]])
    (point,) = made.cache.breakpoints
    kept = model.tokenizer.decode(made.prompt_ids[: point.tokens])
    assert "<b>" in kept
    assert "<c>" not in kept


def test_the_whole_prompt_is_kept_when_the_top_level_asks(model: ServedModel) -> None:
    for fields, ttl_s in ((MINUTES, 300), ({"prompt_cache_retention": "24h"}, 86400)):
        made = job(model, [{"role": "user", "content": "Hi"}], **fields)
        assert made.cache.breakpoints == (Breakpoint(len(made.prompt_ids), ttl_s),)


def test_marks_change_no_token_and_the_salt_is_taken_as_it_comes(model: ServedModel) -> None:
    marked = job(model, [{"role": "user", "content": [part("Hi", **HOUR), part("!")]}], cache_salt="s")
    plain = job(model, [{"role": "user", "content": "Hi!"}])
    assert marked.prompt_ids == plain.prompt_ids
    assert (marked.cache.salt, plain.cache.salt) == ("s", "")
    assert plain.cache.breakpoints == ()


def test_short_prefixes_are_let_pass(model: ServedModel) -> None:
    strict = ServedModel(
        model.name, model.tokenizer, model.template, 1024, 16, 0, NoGrammars(), min_cache_tokens=20
    )
    messages = [{"role": "user", "content": [part("Hi", **HOUR), part("hello " * 20, **MINUTES)]}]
    made = job(strict, messages)
    assert [point.ttl_s for point in made.cache.breakpoints] == [300]
    assert len(job(model, messages).cache.breakpoints) == 2


def test_a_bad_mark_names_its_field(model: ServedModel) -> None:
    with pytest.raises(RequestError) as caught:
        job(model, [{"role": "user", "content": [part("Hi", cache_control={"type": "x"})]}])
    assert caught.value.param == "messages[0].content[0].cache_control"


TEXTS = st.text(st.sampled_from("hel lo<|im_endé🌍\n"), max_size=20)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS, TEXTS, TEXTS)
def test_tokens_before_a_mark_stay_the_same_whatever_comes_behind(
    model: ServedModel, kept: str, one: str, other: str
) -> None:
    def marked(rest: str) -> Job:
        return job(model, [{"role": "user", "content": [part(kept, **HOUR), part(rest)]}])

    first, second = marked(one), marked(other)
    tokens = first.cache.breakpoints[0].tokens if first.cache.breakpoints else 0
    ids, ends = model.tokenizer.encode_with_ends("<|im_start|>user\n" + kept)
    assert tokens <= len(ids)
    assert tokens == 0 or ends[tokens - 1] <= ends[-1]
    same = (one == other for one, other in zip(first.prompt_ids, second.prompt_ids, strict=False))
    shared = sum(itertools.takewhile(bool, same))
    assert shared >= tokens - _LONGEST_MERGE


_LONGEST_MERGE = 4
"""A token that ends at the mark may be another when other text follows: at most the longest merge is lost."""
