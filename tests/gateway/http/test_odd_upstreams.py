"""Whatever an upstream says, a client gets an answer or a native error, and never a fault of the gateway."""

from typing import Any

import pytest

from tests.gateway.http.wire import Reply, ask, measured, said
from tests.gateway.stand import Stand
from tests.upstream import Script

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEAD = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}


async def sane(it: Stand, reply: Reply) -> None:
    """A whole answer, a whole stream, or a native error; nothing broke inside."""
    assert reply.status in (200, 502)
    if reply["content-type"].startswith("text/event-stream"):
        last = reply.events[-1]
        assert last == "[DONE]" or last["error"].keys() == {"message", "type", "param", "code"}
    elif reply.status == 502:
        assert reply.json["error"].keys() == {"message", "type", "param", "code"}
    else:
        assert reply.json["object"] == "chat.completion"
    assert await measured(it, "lamina_faults_total", part="gateway") == 0


ODD_IDS = ["x\r\nset-cookie: a=b", "x\0", "é☃", "a" * 100_000, "", None, 5, {"a": 1}]


@pytest.mark.parametrize("odd", ODD_IDS, ids=lambda value: repr(value)[:20])
async def test_an_odd_id_breaks_no_header_of_a_hit(it: Stand, prompt: str, odd: Any) -> None:
    it.upstream.default = Script(extra={"id": odd, "system_fingerprint": odd})
    for stream, word in ((False, "MISS"), (False, "HIT"), (True, "HIT")):
        reply = await ask(it, said(prompt, stream=stream))
        assert reply["x-lamina-cache"] == word
        assert reply.get("set-cookie") is None
        assert len(reply.get("x-lamina-cache-source-id") or "") <= 1024
        await sane(it, reply)


async def test_odd_headers_of_an_upstream_break_nothing(it: Stand, prompt: str) -> None:
    odd = {"x-ratelimit-reset-tokens": "a\x01b", "openai-organization": "\xe9" * 5000, "retry-after": ""}
    for script in (Script(headers=odd), Script(headers=odd, status=429, body={"error": {"message": "m"}})):
        it.upstream.enqueue(script)
        for stream in (False, True):
            reply = await ask(it, said(f"{prompt} {script.status}", stream=stream))
            assert reply.status in (200, 429, 502)
    assert await measured(it, "lamina_faults_total", part="gateway") == 0


ODD_USAGES = [
    {"prompt_tokens": -1, "completion_tokens": True},
    {"prompt_tokens": 1e300, "completion_tokens": "4"},
    {"prompt_tokens": 2**63},
    {},
    [],
    "x",
    0,
]


@pytest.mark.parametrize("usage", ODD_USAGES, ids=str)
async def test_an_odd_usage_breaks_no_count(it: Stand, prompt: str, usage: Any) -> None:
    it.upstream.default = Script(usage=usage)
    for stream in (False, True, False):
        for model in ("m", "watched"):
            await sane(it, await ask(it, said(prompt, stream=stream) | {"model": model}))


ODD_CHOICES: list[Any] = [
    1,
    None,
    {},
    {"index": 10**9, "delta": {"content": "x"}},
    {"index": -1, "delta": {"content": "x"}},
    {"index": "0", "delta": {"content": "x"}},
    {"index": 0, "delta": {"content": 5}},
    {"index": 0, "delta": None},
    {"index": 0, "delta": {"tool_calls": [{"index": 0, "id": 5, "function": {"arguments": 3}}]}},
    {"index": 0, "delta": {"tool_calls": [{"function": None}]}, "finish_reason": "tool_calls"},
    {"index": 0, "delta": {"tool_calls": "x"}},
    {"index": 0, "delta": {"role": ["x"], "content": "x"}, "finish_reason": {"a": 1}},
    {"index": 0, "logprobs": [], "delta": {"content": "x"}, "finish_reason": "stop"},
    {"index": 0, "logprobs": {"content": [1, "x"]}, "delta": {"content": "x"}, "finish_reason": "stop"},
    {"index": 0, "delta": {"content": "x", "reasoning_content": {"a": [1]}}, "finish_reason": "stop"},
    {"index": 0, "delta": {"content": "x", "annotations": 5, "audio": 7}, "finish_reason": "stop"},
    {"index": 0, "delta": {"content": "x", "function_call": "y"}, "finish_reason": "function_call"},
]


@pytest.mark.parametrize("choice", ODD_CHOICES, ids=lambda value: str(value)[:60])
async def test_an_odd_chunk_breaks_no_stream(it: Stand, prompt: str, choice: Any) -> None:
    it.upstream.enqueue(Script(events=[{**HEAD, "choices": [choice]}]))
    for stream in (True, False, True):
        await sane(it, await ask(it, said(prompt, stream=stream)))


ODD_MESSAGES: list[dict[str, Any]] = [
    {
        "content": "x",
        "tool_calls": [{"id": {"a": 1}, "type": "function", "function": {"name": "x", "arguments": "{}"}}],
    },
    {"content": "x", "tool_calls": [{"id": "x", "type": "function", "function": []}]},
    {"content": "x", "tool_calls": [{"id": "x", "type": ["function"]}]},
    {"content": "x", "tool_calls": [None]},
    {"content": {"a": 1}},
    {"content": "x", "role": 5},
    {"content": "x", "refusal": ["no"]},
    {"content": "x", "function_call": "y"},
    {"content": "x", "reasoning_content": {"a": [1]}, "annotations": 5},
]


@pytest.mark.parametrize("message", ODD_MESSAGES, ids=lambda value: str(value)[:60])
@pytest.mark.parametrize("finish", ["stop", "tool_calls"])
async def test_an_odd_message_breaks_no_answer(
    it: Stand, prompt: str, message: dict[str, Any], finish: str
) -> None:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    it.upstream.enqueue(Script(body={"id": "x", "created": 1, "model": "m", "choices": [choice]}))
    for stream in (False, True):
        await sane(it, await ask(it, said(prompt, stream=stream)))


ODD_FIELDS: list[dict[str, Any]] = [
    {"response_format": "x"},
    {"response_format": {"type": []}},
    {"tools": 5},
    {"n": None, "stop": {"a": []}, "logprobs": []},
    {"temperature": True, "top_p": [1]},
    {"max_tokens": "x"},
    {"max_tokens": False},
    {"cache": 5, "tensorzero::cache_options": "x"},
    {"cache": {"ttl": "x", "namespace": 5, "no-cache": "yes"}},
    {"user": 5, "seed": 1e308, "stream": None, "stream_options": None},
]


@pytest.mark.parametrize("fields", ODD_FIELDS, ids=str)
async def test_odd_fields_of_a_request_are_the_models_affair(
    it: Stand, prompt: str, fields: dict[str, Any]
) -> None:
    for _ in range(2):
        reply = await ask(it, said(prompt, **fields))
        assert reply.status == 200
        await sane(it, reply)
    cache_fields = {"cache", "tensorzero::cache_options", "stream", "stream_options"}
    for name in fields.keys() - cache_fields:
        assert it.upstream.calls[0].body[name] == fields[name]
