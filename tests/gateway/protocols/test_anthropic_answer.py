"""The neutral answer as an Anthropic message, whole and as events; the official SDK's accumulator is the judge."""

from typing import Any

import orjson
import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from gateway.errors import UpstreamError
from gateway.protocols.anthropic_answer import render_message, stop_of, usage_of
from gateway.protocols.anthropic_errors import error_object
from gateway.protocols.anthropic_events import MessageEvents
from gateway.protocols.assemble import Assembler, parse_completion
from gateway.protocols.sse import SseParser
from policies.types import ChatResponse, Json

EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 4,
    "total_tokens": 24,
    "prompt_tokens_details": {"cached_tokens": 12, "cache_write_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
HEAD = {"id": "up-1", "object": "chat.completion.chunk", "created": 5, "model": "up-model"}


def call(index: int | None, arguments: str, name: str | None = None) -> Json:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    first = {"id": f"call_{name}", "type": "function"} if name else {}
    return {**({} if index is None else {"index": index}), **first, "function": function}


def completion(finish_reason: str | None = "stop", **message: Any) -> ChatResponse:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish_reason}
    return parse_completion({**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE})


def whole(response: ChatResponse) -> Json:
    body = render_message(response, "msg_1", response.model)
    Message.model_validate(body, strict=False)
    return body


def heard(raw: bytes) -> list[Json]:
    """The events, each valid, named as its type, in the order that the protocol asks for."""
    found = []
    for event in SseParser().feed(raw):
        value = orjson.loads(event.data)
        assert event.name == value["type"]
        EVENT.validate_python(value)
        found.append(value)
    kinds = [event["type"] for event in found]
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    opened: int | None = None
    started = 0
    for event in found[1:-2]:
        if event["type"] == "content_block_start":
            assert opened is None, "two blocks are open"
            assert event["index"] == started
            opened, started = started, started + 1
        else:
            assert event["index"] == opened
            opened = None if event["type"] == "content_block_stop" else opened
    assert opened is None
    return found


def put_together(raw: bytes) -> Json:
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for event in heard(raw):
        parsed = EVENT.validate_python(event)
        snapshot = accumulate_event(event=parsed, current_snapshot=snapshot, json_bufs=buffers)
    made: Json = snapshot.to_dict()
    return made


def replayed(response: ChatResponse) -> Json:
    stream = MessageEvents("msg_1", "m")
    return put_together(stream.replay(response) + stream.end())


def streamed(*deltas: Json, finish: Json | None = None) -> tuple[Json, Json]:
    """What a client puts together from a live stream, and what it gets of the stored answer."""
    last = {"delta": {}, "finish_reason": "stop"} if finish is None else {"delta": {}, **finish}
    parts = [*({"delta": delta, "finish_reason": None} for delta in deltas), last]
    chunks = [{**HEAD, "choices": [{"index": 0, **part}]} for part in parts]
    chunks.append({**HEAD, "choices": [], "usage": USAGE})
    stream, assembler, raw = MessageEvents("msg_1", "m"), Assembler(), b""
    for chunk in chunks:
        assembler.add(chunk)
        raw += stream.chunks([chunk])
    response = assembler.finish()
    assert replayed(response) == without_nulls(whole(response))
    return put_together(raw + stream.end()), without_nulls(whole(response))


def without_nulls(message: Json) -> Json:
    return Message.model_validate(message).to_dict()


SHAPES: dict[str, dict[str, Any]] = {
    "text": {"content": "Hello"},
    "call": {"content": None, "tool_calls": [call(None, '{"at": "sky"}', "look")]},
    "text and calls": {
        "content": "Let me see.",
        "tool_calls": [call(None, '{"at": {"deep": [1, 2.5, null]}}', "look"), call(None, "", "walk")],
    },
    "reasoning": {"content": "Four.", "reasoning_content": "Two and two."},
    "reasoning, newer": {"content": "Four.", "reasoning": "Two and two."},
    "thinking": {
        "content": "Four.",
        "reasoning_content": "Two and two.",
        "thinking_blocks": [
            {"type": "thinking", "thinking": "Two and two.", "signature": "Eq+/=="},
            {"type": "redacted_thinking", "data": "EmwK+/=="},
        ],
    },
    "refusal": {"content": None, "refusal": "No."},
    "nothing": {"content": ""},
    "parts": {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
}


@pytest.mark.parametrize("message", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("finish_reason", ["stop", "tool_calls", "length", None])
def test_a_replay_put_together_is_the_whole_message(message: Json, finish_reason: str | None) -> None:
    response = completion(finish_reason, **message)
    assert replayed(response) == without_nulls(whole(response))


def test_blocks_come_in_the_order_of_the_protocol() -> None:
    message = SHAPES["thinking"] | {"tool_calls": [call(None, '{"at": "sky"}', "look")]}
    assert whole(completion("tool_calls", **message))["content"] == [
        {"type": "thinking", "thinking": "Two and two.", "signature": "Eq+/=="},
        {"type": "redacted_thinking", "data": "EmwK+/=="},
        {"type": "text", "text": "Four.", "citations": None},
        {"type": "tool_use", "id": "call_look", "name": "look", "input": {"at": "sky"}},
    ]


@pytest.mark.parametrize(
    ("finish_reason", "matched", "calls", "refuses", "stop"),
    [
        ("stop", None, False, False, ("end_turn", None)),
        ("stop", "END", False, False, ("stop_sequence", "END")),
        ("stop", 128009, False, False, ("end_turn", None)),
        ("stop", None, True, False, ("tool_use", None)),
        ("tool_calls", None, True, False, ("tool_use", None)),
        ("tool_calls", None, False, False, ("end_turn", None)),
        ("length", None, False, False, ("max_tokens", None)),
        ("length", None, True, False, ("max_tokens", None)),
        ("content_filter", None, False, False, ("refusal", None)),
        ("stop", None, False, True, ("refusal", None)),
        ("odd", None, False, False, (None, None)),
        (None, None, False, False, (None, None)),
    ],
)
def test_why_it_stopped(
    finish_reason: str | None, matched: Any, calls: bool, refuses: bool, stop: tuple[str | None, str | None]
) -> None:
    told = stop_of(finish_reason, matched, calls=calls, refuses=refuses)
    assert (told["stop_reason"], told["stop_sequence"]) == stop


def test_usage_adds_up_to_the_prompt() -> None:
    usage = usage_of(USAGE)
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (5, 12)
    assert (usage["cache_creation_input_tokens"], usage["output_tokens"]) == (3, 4)
    assert usage["output_tokens_details"] == {"thinking_tokens": 2}
    for odd in (None, {}, {"prompt_tokens": None, "prompt_tokens_details": 7}, {"prompt_tokens": "x"}):
        unknown = usage_of(odd)
        assert unknown.keys() == usage.keys()
        assert unknown["input_tokens"] == unknown["output_tokens"] == unknown["cache_read_input_tokens"] == 0


@pytest.mark.parametrize("arguments", ["{", "[1]", "null", '"x"'])
def test_a_finished_call_nobody_could_run_is_an_error(arguments: str) -> None:
    calls = [call(None, arguments, "look")]
    with pytest.raises(UpstreamError) as caught:
        whole(completion("tool_calls", content=None, tool_calls=calls))
    assert (caught.value.status, caught.value.reason) == (502, "protocol")
    cut = whole(completion("length", content=None, tool_calls=calls))
    assert (cut["content"][0]["input"], cut["stop_reason"]) == ({}, "max_tokens")


START = {"role": "assistant", "content": ""}
LIVE: dict[str, list[Json]] = {
    "text": [START, {"content": "Hel"}, {"content": "lo"}],
    "call": [START, *({"tool_calls": [call(0, *part)]} for part in (("", "look"), ('{"at"',), (': "sky"}',)))],
    "text, then calls": [START, {"content": "Let me see."}]
    + [{"tool_calls": [call(index, "", name)]} for index, name in enumerate(("look", "walk"))]
    + [{"tool_calls": [call(0, '{"at": {}}')]}, {"tool_calls": [call(1, "{}")]}],
    "calls at once": [{"tool_calls": [call(0, "", "look"), call(1, "", "walk")]}]
    + [
        {"tool_calls": [call(0, one), call(1, other)]}
        for one, other in zip(('{"a": ', '{"b": ', "1}", "} "), ("{", '"c": [', "2]", "}"), strict=True)
    ],
    "calls without arguments": [{"tool_calls": [call(0, "", "look")]}, {"tool_calls": [call(1, "", "walk")]}],
    "calls without index": [
        {"tool_calls": [call(None, "{}", "look")]},
        {"tool_calls": [call(None, "", "walk")]},
        {"tool_calls": [call(None, "{}", "walk")]},
    ],
    "white space after a call": [
        {"tool_calls": [call(0, "{}", "look")]},
        {"tool_calls": [call(1, "{}", "walk")]},
        {"tool_calls": [call(0, " ")]},
    ],
    "reasoning": [{"reasoning_content": "Two "}, {"reasoning_content": "and two."}, {"content": "Four."}],
    "signed thinking": [
        {"thinking_blocks": [{"type": "thinking", "thinking": "Two "}], "reasoning_content": "Two "},
        {"thinking_blocks": [{"type": "thinking", "thinking": "and two."}], "reasoning_content": "and two."},
        {"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "Eq+/=="}]},
        {
            "thinking_blocks": [
                {"type": "redacted_thinking", "data": "A"},
                {"type": "redacted_thinking", "data": "B"},
            ]
        },
        {"thinking_blocks": [{"type": "thinking", "thinking": "More.", "signature": "Er+/=="}]},
        {"content": "Four."},
    ],
    "refusal": [START, {"refusal": "No"}, {"refusal": "."}],
    "nothing": [START],
}


@pytest.mark.parametrize("deltas", LIVE.values(), ids=LIVE)
def test_a_live_stream_put_together_is_the_stored_answer(deltas: list[Json]) -> None:
    live, stored = streamed(*deltas)
    assert live == stored


def test_text_after_a_call_is_a_block_of_its_own() -> None:
    live, _ = streamed({"tool_calls": [call(0, "{}", "look")]}, {"content": "a"}, {"content": "b"})
    assert [block["type"] for block in live["content"]] == ["tool_use", "text"]
    assert live["content"][1]["text"] == "ab"
    assert live["stop_reason"] == "tool_use"


def test_text_amid_a_call_waits_for_its_end() -> None:
    live, _ = streamed({"tool_calls": [call(0, "{", "look")]}, {"content": "a"}, {"tool_calls": [call(0, "}")]})
    assert [block["type"] for block in live["content"]] == ["tool_use", "text"]


def test_the_stop_sequence_is_told_where_the_upstream_tells_it() -> None:
    live, stored = streamed(START, {"content": "x"}, finish={"finish_reason": "stop", "stop_reason": "END"})
    assert live == stored
    assert (live["stop_reason"], live["stop_sequence"]) == ("stop_sequence", "END")


def test_a_replay_tells_the_input_at_once_and_a_live_stream_at_the_end() -> None:
    response = completion(content="Hello")
    stream = MessageEvents("msg_1", "m")
    start, *_, delta, _ = heard(stream.replay(response) + stream.end())
    assert start["message"]["usage"]["input_tokens"] == delta["usage"]["input_tokens"] == 5
    live = MessageEvents("msg_1", "m")
    chunk = {**HEAD, "choices": [{"index": 0, "delta": START, "finish_reason": None}]}
    start, *_, delta, _ = heard(live.chunks([chunk, {**HEAD, "choices": [], "usage": USAGE}]) + live.end())
    assert start["message"]["usage"]["input_tokens"] == 0
    assert start["message"]["model"] == "up-model"
    assert delta["usage"]["input_tokens"] == 5


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (402, "billing_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (405, "invalid_request_error"),
        (409, "conflict_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "api_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ],
)
def test_the_type_of_an_error_follows_from_its_status(status: int, kind: str) -> None:
    told = error_object(status, {"error": {"message": "x", "type": "odd"}}, "req_1")
    assert told == {"type": "error", "error": {"type": kind, "message": "x"}, "request_id": "req_1"}
    for odd in ({}, {"error": None}, {"error": {"message": 7}}):
        assert error_object(status, odd, "req_1")["error"]["message"]
