"""Tokens read from and written to a prompt cache, in each protocol's words."""

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from gateway.layers.entry import answer_of
from gateway.protocols.anthropic_answer import usage_of
from gateway.protocols.anthropic_events import MessageEvents
from gateway.protocols.assemble import Assembler
from gateway.protocols.openai_chat import OpenAIEvents
from gateway.protocols.sse import SseParser
from policies.types import ChatResponse, Json

DETAILS = {
    "cached_tokens": 32,
    "cache_write_tokens": 48,
    "cache_write_tokens_details": {"ttl_5m_tokens": 10, "ttl_1h_tokens": 30},
}
EARLY = {"prompt_tokens": 90, "completion_tokens": 0, "total_tokens": 90, "prompt_tokens_details": DETAILS}
LATE = {**EARLY, "completion_tokens": 5, "total_tokens": 95}
HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 5, "model": "m"}
STREAM: list[Json] = [
    {**HEAD, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}], "prompt_usage": EARLY},
    {**HEAD, "choices": [{"index": 0, "delta": {"content": "Hi"}}]},
    {**HEAD, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {**HEAD, "choices": [], "usage": LATE},
]


def events(raw: bytes) -> list[Json]:
    return [orjson.loads(event.data) for event in SseParser().feed(raw)]


@given(
    prompt=st.integers(0, 5000),
    read=st.integers(0, 5000),
    written=st.integers(0, 5000),
    lives=st.none()
    | st.dictionaries(st.sampled_from(["ttl_5m_tokens", "ttl_1h_tokens", "ttl_30m_tokens"]), st.integers(0, 900)),
)
def test_input_read_and_created_add_up_to_the_prompt(
    prompt: int, read: int, written: int, lives: dict[str, int] | None
) -> None:
    read = min(read, prompt)
    written = min(written, prompt - read)
    details: dict[str, Any] = {"cached_tokens": read, "cache_write_tokens": written}
    if lives is not None:
        left = written
        details["cache_write_tokens_details"] = {}
        for name, tokens in lives.items():
            details["cache_write_tokens_details"][name] = min(tokens, left)
            left -= min(tokens, left)
    usage = usage_of({"prompt_tokens": prompt, "completion_tokens": 1, "prompt_tokens_details": details})
    created = usage["cache_creation_input_tokens"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] + created == prompt
    assert usage["cache_read_input_tokens"] == read
    assert created <= written
    if lives is None:
        assert usage["cache_creation"] is None
        assert created == written
    else:
        assert sum(usage["cache_creation"].values()) == created
        assert usage["cache_creation"]["ephemeral_1h_input_tokens"] == details["cache_write_tokens_details"].get(
            "ttl_1h_tokens", 0
        )


def test_what_is_cached_without_a_promise_is_plain_input() -> None:
    details = {"cached_tokens": 16, "cache_write_tokens": 48, "cache_write_tokens_details": {}}
    usage = usage_of({"prompt_tokens": 70, "completion_tokens": 1, "prompt_tokens_details": details})
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (54, 16)
    assert usage["cache_creation"] == {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}


def test_message_start_tells_what_was_read_as_soon_as_the_engine_does() -> None:
    stream = MessageEvents("msg_1", "m")
    start = events(stream.chunks(STREAM[:1]))[0]["message"]["usage"]
    assert (start["input_tokens"], start["cache_read_input_tokens"], start["cache_creation_input_tokens"]) == (
        18,
        32,
        40,
    )
    assert start["cache_creation"] == {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 30}
    stream.chunks(STREAM[1:])
    end = events(stream.end())[-2]["usage"]
    assert {name: start[name] for name in end if name not in ("output_tokens", "output_tokens_details")} == {
        name: end[name] for name in end if name not in ("output_tokens", "output_tokens_details")
    }
    assert end["output_tokens"] == 5


def test_an_openai_client_sees_usage_once_and_only_if_it_asked() -> None:
    for asked in (True, False):
        shown = events(OpenAIEvents(None, 5, "m", asked).chunks(STREAM))
        assert [chunk["usage"] for chunk in shown if "usage" in chunk] == [LATE] * asked
        assert not any("prompt_usage" in chunk for chunk in shown)
        assert len(shown) == 3 + asked


def test_the_early_usage_is_no_part_of_the_answer() -> None:
    assembler = Assembler()
    for chunk in STREAM:
        assembler.add(chunk)
    answer = assembler.finish()
    assert answer.usage == LATE
    assert answer.extra == {}


def test_a_stored_answer_keeps_its_usage_but_not_why_it_missed() -> None:
    told = {**LATE, "prompt_tokens_details": {**DETAILS, "miss": {"reason": "differs", "at": 32}}}
    assert answer_of(ChatResponse("1", 5, "m", (), told))[3] == LATE
    assert answer_of(ChatResponse("1", 5, "m", (), LATE))[3] == LATE
    assert answer_of(ChatResponse("1", 5, "m", (), None))[3] is None
    assert told["prompt_tokens_details"]["miss"], "the live answer still tells"
