"""Only finished, valid, allowed answers are stored: after any other, the same request asks the model again."""

from typing import Any

import openai
import orjson
import pytest

from gateway.protocols.sse import event_bytes
from tests.gateway.http.wire import ask, chat_request, fetch, line, measured, said
from tests.gateway.stand import Stand
from tests.upstream import Script

pytestmark = pytest.mark.asyncio(loop_scope="module")

ARGUMENTS = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at": '}}
LIST_ARGUMENTS = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "[1]"}}
NAMELESS = {"id": "call_1", "type": "function", "function": {"name": "", "arguments": "{}"}}


def whole(message: dict[str, Any], finish_reason: Any = "stop", **top: Any) -> Script:
    """An answer made by hand."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish_reason}
    return Script(
        body={"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], **top}
    )


def events(*choices: dict[str, Any]) -> Script:
    """A stream made by hand, one choice in each chunk."""
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return Script(
        events=[{**head, "choices": [{"index": 0, "finish_reason": None, **choice}]} for choice in choices]
    )


START = {"delta": {"role": "assistant", "content": ""}}
HELLO = {"delta": {"content": "Hello"}}
STOP = {"delta": {}, "finish_reason": "stop"}

BAD_ANSWERS: dict[str, tuple[Script, dict[str, Any], str]] = {
    "length": (Script(finish_reason="length"), {}, "length"),
    "content filter": (Script(finish_reason="content_filter"), {}, "content_filter"),
    "unknown finish": (Script(finish_reason="abort"), {}, "finish_reason"),
    "no finish": (Script(finish_reason=None), {}, "unfinished"),
    "refusal text": (Script(pieces=("I'm sorry, ", "but I can't help with that.")), {}, "refusal"),
    "empty": (Script(pieces=("",)), {}, "empty"),
    "no content": (Script(pieces=None), {}, "empty"),
    "whitespace": (Script(pieces=(" \n", "\t ")), {}, "empty"),
    "broken arguments": (Script(tool_calls=[ARGUMENTS], finish_reason="tool_calls"), {}, "tool_arguments"),
    "list arguments": (Script(tool_calls=[LIST_ARGUMENTS], finish_reason="tool_calls"), {}, "tool_arguments"),
    "nameless call": (Script(tool_calls=[NAMELESS], finish_reason="tool_calls"), {}, "tool_arguments"),
    "no call": (Script(finish_reason="tool_calls"), {}, "tool_calls"),
    "too few choices": (Script(), {"n": 2}, "choices"),
    "too many choices": (Script(n=2), {}, "choices"),
    "second is cut": (Script(n=2, finish_reason="length"), {"n": 2}, "length"),
    "no JSON": (Script(pieces=("Sure! {",)), {"response_format": {"type": "json_object"}}, "invalid_json"),
}
WHOLE_ONLY: dict[str, tuple[Script, dict[str, Any], str]] = {
    "refusal field": (whole({"content": None, "refusal": "No."}), {}, "refusal"),
    "audio": (whole({"content": "x", "audio": {"id": "a", "expires_at": 1}}), {}, "expiring"),
    "parts": (whole({"content": [{"type": "text", "text": "x"}]}), {}, "content"),
    "call of no type": (
        whole({"content": None, "tool_calls": [{"id": "c", "type": []}]}, "tool_calls"),
        {},
        "tool_arguments",
    ),
    "finish is a number": (whole({"content": "x"}, 7), {}, "finish_reason"),
}
STREAM_ONLY: dict[str, Script] = {
    "refusal field": events(START, {"delta": {"refusal": "No."}}, STOP),
    "finish missing": events(START, HELLO),
}


@pytest.mark.parametrize(
    ("script", "fields", "reason"), [*BAD_ANSWERS.values(), *WHOLE_ONLY.values()], ids=[*BAD_ANSWERS, *WHOLE_ONLY]
)
async def test_a_whole_answer_that_must_not_be_stored_says_why(
    it: Stand, prompt: str, script: Script, fields: dict[str, Any], reason: str
) -> None:
    it.upstream.enqueue(script)
    refused = await ask(it, said(prompt, **fields))
    assert refused.status == 200
    assert refused["x-lamina-cache-reason"] == reason
    assert refused["cache-status"] == "lamina; fwd=uri-miss; fwd-status=200"
    assert await measured(it, "lamina_cache_writes_total", result="refused", reason=reason) >= 1
    again = await ask(it, said(prompt, **fields))
    assert again["x-lamina-cache"] == "MISS"
    assert len(it.upstream.calls) == 2


@pytest.mark.parametrize(
    ("script", "fields"),
    [*(bad[:2] for bad in BAD_ANSWERS.values()), *((script, {}) for script in STREAM_ONLY.values())],
    ids=[*BAD_ANSWERS, *STREAM_ONLY],
)
async def test_a_streamed_answer_that_must_not_be_stored_is_not(
    it: Stand, prompt: str, script: Script, fields: dict[str, Any]
) -> None:
    it.upstream.enqueue(script)
    streamed = await ask(it, said(prompt, stream=True, **fields))
    assert streamed.status == 200
    assert streamed.events[-1] == "[DONE]"
    assert (await ask(it, said(prompt, **fields)))["x-lamina-cache"] == "MISS"
    assert len(it.upstream.calls) == 2


async def test_a_good_answer_after_a_bad_one_is_stored(it: Stand, prompt: str) -> None:
    it.upstream.enqueue(Script(finish_reason="length"))
    words = [(await ask(it, said(prompt)))["x-lamina-cache"] for _ in range(3)]
    assert words == ["MISS", "MISS", "HIT"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"error": {"message": "Overloaded", "type": "overloaded_error"}}, 503),
        ({"error": {"message": "Slow down", "code": 429}}, 429),
        ({"error": "out of memory"}, 502),
        ({"id": "x", "choices": None}, 502),
    ],
    ids=["overloaded", "429", "text", "no choices"],
)
async def test_an_error_that_came_as_200_is_an_error(
    it: Stand, prompt: str, body: dict[str, Any], status: int, *, stream: bool
) -> None:
    it.upstream.enqueue(Script(body=body))
    reply = await ask(it, said(prompt, stream=stream))
    assert reply.status == status
    assert reply.json["error"].keys() == {"message", "type", "param", "code"}
    assert (await ask(it, said(prompt)))["x-lamina-cache"] == "MISS"


ENDS = {
    "cut": Script(cut_after=3),
    "no done": Script(done=False),
    "error event": Script(error_after=3, error={"message": "CUDA died", "type": "server_error", "code": "oom"}),
    "no JSON": Script(events=[event_bytes({"choices": [START | {"index": 0}]}), b"data: {\n\n"]),
}


@pytest.mark.parametrize("script", ENDS.values(), ids=ENDS)
async def test_a_stream_that_breaks_ends_in_an_error_event(
    it: Stand, sdk: openai.AsyncOpenAI, prompt: str, script: Script
) -> None:
    it.upstream.enqueue(script)
    broken = await ask(it, said(prompt, stream=True))
    assert broken.status == 200
    assert broken.events[-1].keys() == {"error"}
    assert broken.events[-1]["error"].keys() == {"message", "type", "param", "code"}
    assert "[DONE]" not in broken.events
    it.upstream.enqueue(script)
    with pytest.raises(openai.APIError):
        async for _ in await sdk.chat.completions.create(stream=True, **said(prompt)):
            pass
    assert (await ask(it, said(prompt)))["x-lamina-cache"] == "MISS"
    assert len(it.upstream.calls) == 3


async def test_a_whole_request_over_a_broken_stream_is_a_502(it: Stand, prompt: str) -> None:
    it.upstream.enqueue(Script(cut_after=40))
    assert (await ask(it, said(prompt))).status == 502
    assert (await ask(it, said(prompt)))["x-lamina-cache"] == "MISS"


async def test_a_client_that_leaves_mid_stream_leaves_nothing_behind(it: Stand, prompt: str) -> None:
    it.upstream.enqueue(Script(piece_delay_s=0.02))
    left = it.upstream.disconnects
    async with line(it) as opened:
        await opened.send(chat_request(said(prompt, stream=True)))
        await opened.head()
        await anext(opened.parts())
    await it.upstream.until(disconnects=left + 1)
    assert (await ask(it, said(prompt)))["x-lamina-cache"] == "MISS"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_fallbacks_answer_is_never_the_primarys(it: Stand, prompt: str, *, stream: bool) -> None:
    body = said(prompt, stream=stream) | {"model": "first"}
    down = Script(status=500, body={"error": {"message": "down", "type": "server_error"}})
    it.upstream.enqueue(down, Script(pieces=("from the second",)))
    fallen = await ask(it, body)
    assert fallen.status == 200
    assert fallen["x-lamina-model"] == "second"
    assert b"from the second" in fallen.body
    assert stream or fallen["x-lamina-cache-reason"] == "fallback"
    assert [call.body["model"] for call in it.upstream.calls] == ["first", "second"]
    own = await ask(it, body | {"model": "second"})
    assert own["x-lamina-cache"] == "MISS"
    primary = await ask(it, body)
    assert (primary["x-lamina-cache"], primary["x-lamina-model"]) == ("MISS", "first")
    found = await ask(it, body)
    assert found["x-lamina-cache"] == "HIT"
    assert b"from the second" not in found.body


async def test_a_failure_of_every_target_is_the_last_ones(it: Stand, prompt: str) -> None:
    bodies = [{"error": {"message": name, "type": "server_error"}} for name in ("one", "two")]
    it.upstream.enqueue(*(Script(status=503, body=body) for body in bodies))
    reply = await ask(it, said(prompt) | {"model": "first"})
    assert (reply.status, reply.json["error"]["message"]) == (503, "two")


async def test_a_request_that_is_wrong_does_not_fall_back(it: Stand, prompt: str) -> None:
    it.upstream.enqueue(Script(status=400, body={"error": {"message": "bad", "type": "invalid_request_error"}}))
    assert (await ask(it, said(prompt) | {"model": "first"})).status == 400
    assert len(it.upstream.calls) == 1


async def test_an_answer_that_is_too_large_is_not_stored(it: Stand, prompt: str) -> None:
    noise = orjson.dumps([(i * 2654435761) % 2**32 for i in range(400_000)]).decode()
    it.upstream.default = Script(pieces=(noise,))
    reply = await ask(it, said(prompt))
    assert reply["x-lamina-cache-reason"] == "size"
    assert (await ask(it, said(prompt)))["x-lamina-cache"] == "MISS"


async def test_no_fault_of_ours_was_needed(it: Stand) -> None:
    page = (await fetch(it, "/metrics", key=None)).body
    assert b'lamina_faults_total{part="gateway"' not in page
