"""The official SDK, in every form it has, gets what OpenAI would send: from the model, and from the cache."""

import asyncio
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsBase

from tests.gateway.http.wire import ask, said
from tests.gateway.stand import KEY, Stand
from tests.upstream import USAGE, Script

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = "Hello from upstream"
CALLS = (
    {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sky"}'}},
    {"id": "call_2", "type": "function", "function": {"name": "walk", "arguments": "{}"}},
)
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("look", "walk")
]
FORMS = [(False, False), (False, True), (True, False), (True, True)]
FORM_NAMES = ["whole-whole", "whole-stream", "stream-whole", "stream-stream"]


async def asked(sdk: openai.AsyncOpenAI, *, stream: bool, **fields: Any) -> dict[str, Any]:
    """The answer in whole form, whichever way it came; a stream is put together by the SDK's own accumulator."""
    if not stream:
        return (await sdk.chat.completions.create(**fields)).to_dict()
    async with sdk.chat.completions.stream(**fields, stream_options={"include_usage": True}) as events:
        async for _ in events:
            pass
        return (await events.get_final_completion()).to_dict(exclude_unset=False)


async def chunks(sdk: openai.AsyncOpenAI, **fields: Any) -> list[ChatCompletionChunk]:
    return [chunk async for chunk in await sdk.chat.completions.create(stream=True, **fields)]


def heard(answer: dict[str, Any]) -> list[Any]:
    """What was said, without what the form of transport adds."""
    names = ("role", "content", "refusal")
    choices = []
    for choice in answer["choices"]:
        message = choice["message"]
        calls = [
            (call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls") or ()
        ]
        logprobs = (choice.get("logprobs") or {}).get("content")
        choices.append([choice["index"], *map(message.get, names), calls, choice["finish_reason"], logprobs])
    return choices


async def test_a_whole_answer_has_every_required_key(it: Stand, prompt: str) -> None:
    it.upstream.default = Script(extra={"system_fingerprint": "fp_1", "service_tier": "default"})
    for source in ("MISS", "HIT"):
        reply = await ask(it, said(prompt))
        assert reply["x-lamina-cache"] == source
        body = reply.json
        assert {"id", "object", "created", "model", "choices", "usage"} <= body.keys()
        assert body["object"] == "chat.completion"
        assert isinstance(body["created"], int)
        assert body["system_fingerprint"] == "fp_1"
        (choice,) = body["choices"]
        assert choice == {
            "index": 0,
            "message": {"role": "assistant", "content": TEXT, "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
        assert body["usage"] == USAGE


async def test_the_sync_client_gets_answers_and_streams(it: Stand, prompt: str) -> None:
    def talk() -> list[str]:
        with openai.OpenAI(api_key=KEY, base_url=it.base_url, max_retries=0) as client:
            asked = [said(prompt), said(prompt), said(prompt + " 2")]
            texts = [client.chat.completions.create(**body).choices[0].message.content or "" for body in asked]
            for fields in (said(prompt), said(prompt + " 3")):
                parts = client.chat.completions.create(stream=True, **fields)
                texts.append("".join(chunk.choices[0].delta.content or "" for chunk in parts))
            return texts

    assert await asyncio.to_thread(talk) == [TEXT] * 5
    assert len(it.upstream.calls) == 3


@pytest.mark.parametrize(("first", "second"), FORMS, ids=FORM_NAMES)
async def test_either_form_is_replayed_in_either_form(
    it: Stand, sdk: openai.AsyncOpenAI, prompt: str, first: bool, second: bool
) -> None:
    made = await asked(sdk, stream=first, **said(prompt))
    found = await asked(sdk, stream=second, **said(prompt))
    again = await asked(sdk, stream=second, **said(prompt))
    assert len(it.upstream.calls) == 1
    assert heard(made) == heard(found) == heard(again) == [[0, "assistant", TEXT, None, [], "stop", None]]
    assert len({made["id"], found["id"], again["id"]}) == 3
    assert all(answer["id"].startswith("chatcmpl-") for answer in (made, found, again))
    assert found["usage"]["total_tokens"] == made["usage"]["total_tokens"] == USAGE["total_tokens"]
    assert found["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert found["model"] == made["model"] == "m"
    assert found["created"] >= made["created"]


@pytest.mark.parametrize(("first", "second"), FORMS, ids=FORM_NAMES)
async def test_several_choices_keep_their_places(
    it: Stand, sdk: openai.AsyncOpenAI, prompt: str, first: bool, second: bool
) -> None:
    it.upstream.default = Script(n=3)
    made = await asked(sdk, stream=first, **said(prompt, n=3))
    found = await asked(sdk, stream=second, **said(prompt, n=3))
    assert len(it.upstream.calls) == 1
    assert heard(made) == heard(found)
    assert [choice["message"]["content"] for choice in found["choices"]] == [TEXT, TEXT + "#1", TEXT + "#2"]


@pytest.mark.parametrize(("first", "second"), FORMS, ids=FORM_NAMES)
async def test_tools_pass_in_both_directions(
    it: Stand, sdk: openai.AsyncOpenAI, prompt: str, first: bool, second: bool
) -> None:
    it.upstream.default = Script(pieces=None, tool_calls=CALLS, finish_reason="tool_calls")
    fields = said(prompt, tools=TOOLS, tool_choice="auto", parallel_tool_calls=True)
    made = await asked(sdk, stream=first, **fields)
    found = await asked(sdk, stream=second, **fields)
    assert len(it.upstream.calls) == 1
    assert it.upstream.calls[0].body["tools"] == TOOLS
    wanted = [("call_1", "look", '{"at": "sky"}'), ("call_2", "walk", "{}")]
    assert heard(made) == heard(found) == [[0, "assistant", None, None, wanted, "tool_calls", None]]


async def test_a_tool_round_trip_reaches_the_model(it: Stand, sdk: openai.AsyncOpenAI, prompt: str) -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": prompt}]},
        {"role": "assistant", "content": None, "tool_calls": [CALLS[0]]},
        {"role": "tool", "tool_call_id": "call_1", "content": "blue"},
    ]
    for _ in range(2):
        await sdk.chat.completions.create(model="m", messages=messages)  # type: ignore[arg-type]
    (call,) = it.upstream.calls
    assert call.body["messages"] == messages


TOKENS = [{"token": piece, "logprob": -0.5, "bytes": list(piece.encode()), "top_logprobs": []} for piece in "abc"]


def with_logprobs(*, stream: bool) -> Script:
    """An answer "abc" with the logprobs of its three tokens."""
    if not stream:
        message = {"role": "assistant", "content": "abc", "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        choice["logprobs"] = {"content": TOKENS, "refusal": None}
        return Script(
            body={"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        )
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    parts: list[dict[str, Any]] = [{"delta": {"role": "assistant", "content": ""}, "logprobs": None}]
    parts += [{"delta": {"content": t["token"]}, "logprobs": {"content": [t], "refusal": None}} for t in TOKENS]
    parts = [{"index": 0, "finish_reason": None, **part} for part in parts]
    parts.append({"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"})
    return Script(events=[{**head, "choices": [part]} for part in parts])


@pytest.mark.parametrize(("first", "second"), FORMS, ids=FORM_NAMES)
async def test_logprobs_survive(
    it: Stand, sdk: openai.AsyncOpenAI, prompt: str, first: bool, second: bool
) -> None:
    it.upstream.default = with_logprobs(stream=first)
    made = await asked(sdk, stream=first, **said(prompt, logprobs=True))
    found = await asked(sdk, stream=second, **said(prompt, logprobs=True))
    assert len(it.upstream.calls) == 1
    for answer in (made, found):
        ((_, _, content, _, _, reason, logprobs),) = heard(answer)
        assert (content, reason) == ("abc", "stop")
        assert [(token["token"], token["bytes"]) for token in logprobs] == [("a", [97]), ("b", [98]), ("c", [99])]


@pytest.mark.parametrize("cached", [False, True], ids=["live", "replayed"])
async def test_a_stream_has_one_role_one_finish_and_usage_only_when_asked(
    it: Stand, sdk: openai.AsyncOpenAI, prompt: str, cached: bool
) -> None:
    it.upstream.default = Script(n=2)
    if cached:
        await sdk.chat.completions.create(**said(prompt, n=2))
    bare = await chunks(sdk, **said(prompt, n=2))
    other = said(prompt if cached else prompt + " 2", n=2)
    counted = await chunks(sdk, **other, stream_options={"include_usage": True})
    assert len(it.upstream.calls) == (1 if cached else 2)
    for stream in (bare, counted):
        assert len({(chunk.id, chunk.created, chunk.model) for chunk in stream}) == 1
        parts = [choice for chunk in stream for choice in chunk.choices]
        assert list(dict.fromkeys(part.index for part in parts)) == [0, 1]
        for index in (0, 1):
            mine = [part for part in parts if part.index == index]
            assert [part.delta.role for part in mine] == ["assistant", *[None] * (len(mine) - 1)]
            assert [part.finish_reason for part in mine if part.finish_reason] == ["stop"]
            assert mine[-1].finish_reason == "stop"
            assert not mine[-1].delta.to_dict()
    assert not any("usage" in chunk.to_dict() for chunk in bare)
    assert counted[-1].choices == []
    assert counted[-1].usage is not None
    assert counted[-1].usage.to_dict() == USAGE
    assert all(chunk.usage is None and "usage" in chunk.model_fields_set for chunk in counted[:-1])


async def test_a_replayed_stream_keeps_the_pieces_it_came_in(
    it: Stand, sdk: openai.AsyncOpenAI, prompt: str
) -> None:
    pieces = ("Grü", "ße, ", "世界", " 🌍", "!\n\ndata: [DONE]\n\n")
    it.upstream.default = Script(pieces=pieces)
    for _ in range(2):
        stream = await chunks(sdk, **said(prompt))
        assert tuple(c.choices[0].delta.content for c in stream if c.choices[0].delta.content) == pieces
    assert len(it.upstream.calls) == 1


@pytest.mark.parametrize("cached", [False, True], ids=["live", "replayed"])
async def test_on_the_wire_a_stream_is_plain_data_lines(it: Stand, prompt: str, cached: bool) -> None:
    if cached:
        await ask(it, said(prompt))
    reply = await ask(it, said(prompt, stream=True), ("accept", "application/json"))
    assert reply.status == 200
    assert reply["content-type"] == "text/event-stream; charset=utf-8"
    assert reply["cache-control"] == "no-cache"
    assert reply["x-accel-buffering"] == "no"
    assert reply["x-request-id"].startswith("req_")
    assert reply.get("content-encoding") is None
    assert b"\r" not in reply.body
    assert reply.events[-1] == "[DONE]"  # `events` proves that nothing but `data:` lines came
    assert reply.events.count("[DONE]") == 1
    assert all(event["object"] == "chat.completion.chunk" for event in reply.events[:-1])


async def test_headers_of_a_whole_answer(it: Stand, prompt: str) -> None:
    seen = set()
    for _ in range(2):
        reply = await ask(it, said(prompt), ("x-request-id", "mine"), ("accept", "text/event-stream"))
        assert reply["content-type"] == "application/json"
        assert reply["cache-control"] == "private, no-cache"
        assert len({name for name, _ in reply.pairs}) == len(reply.pairs), "a header came twice"
        assert reply["x-request-id"] != "mine"
        seen.add(reply["x-request-id"])
    assert len(seen) == 2


PUBLISHED: dict[str, Any] = {
    "audio": {"voice": "alloy", "format": "wav"},
    "frequency_penalty": 0.5,
    "function_call": "auto",
    "functions": [{"name": "look", "parameters": {}}],
    "logit_bias": {"50256": -100},
    "logprobs": True,
    "max_completion_tokens": 100,
    "max_tokens": 99,
    "metadata": {"team": "a"},
    "modalities": ["text"],
    "moderation": {"mode": "auto"},
    "n": 1,
    "parallel_tool_calls": False,
    "prediction": {"type": "content", "content": "Hello"},
    "presence_penalty": -0.5,
    "prompt_cache_key": "k",
    "prompt_cache_options": {"mode": "explicit", "ttl": "30m"},
    "prompt_cache_retention": "24h",
    "reasoning_effort": "low",
    "response_format": {"type": "text"},
    "safety_identifier": "hashed-user",
    "seed": 7,
    "service_tier": "flex",
    "stop": ["END"],
    "store": False,
    "temperature": 0,
    "tool_choice": "auto",
    "tools": TOOLS,
    "top_logprobs": 2,
    "top_p": 1,
    "user": "someone",
    "verbosity": "low",
    "web_search_options": {"search_context_size": "low"},
}
EXTRA = {"top_k": 3, "min_p": 0.1, "unheard_of": {"deep": [1, 2.5, None, "ß"]}}
CONTROLS = {"cache": {"no-cache": True, "ttl": 60}, "tensorzero::cache_options": {"enabled": "on"}}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_every_published_field_is_accepted_and_reaches_the_model_unchanged(
    it: Stand, sdk: openai.AsyncOpenAI, prompt: str, stream: bool
) -> None:
    options = {"include_usage": True, "include_obfuscation": False}
    fields = said(prompt, **PUBLISHED, stream=stream, stream_options=options)  # without a stream they mean nothing
    assert {*CompletionCreateParamsBase.__annotations__, "stream"} - fields.keys() == set()
    answer = await sdk.chat.completions.create(**fields, extra_body=EXTRA | CONTROLS)
    if stream:
        assert [chunk async for chunk in answer]
    (call,) = it.upstream.calls
    shape = {"stream", "stream_options"}
    sent = {name: value for name, value in call.body.items() if name not in shape}
    assert sent == {name: value for name, value in fields.items() if name not in shape} | EXTRA
    assert type(sent["temperature"]) is int  # not even a number is respelled
    assert call.body["stream"] is stream
