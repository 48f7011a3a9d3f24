"""One question, one answer, one entry: asked in either protocol, told in either, whole or streamed."""

from typing import Any

import pytest

from tests.gateway.http.anthropic_sdk import claude, post, told
from tests.gateway.http.wire import ask, said
from tests.gateway.stand import Stand
from tests.upstream import Script

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = "Hello from upstream"
ARGUMENTS = '{"at":"sky"}'
CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": ARGUMENTS}}
SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}


def pair(prompt: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """One conversation in both protocols: system prompt, tool round, tools, limit, stop."""
    tool = {"name": "look", "description": "d"}
    openai = {
        "model": "m",
        "max_completion_tokens": 50,
        "stop": ["END"],
        "tools": [{"type": "function", "function": {**tool, "parameters": SCHEMA}}],
        "tool_choice": "auto",
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": prompt},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "blue"},
        ],
    }
    use = {"type": "tool_use", "id": "call_1", "name": "look", "input": {"at": "sky"}}
    anthropic = told(
        prompt,
        system="Be kind.",
        stop_sequences=["END"],
        tools=[{**tool, "input_schema": SCHEMA}],
        tool_choice={"type": "auto"},
    )
    anthropic["messages"] += [
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "blue"}]},
    ]
    return openai, anthropic


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_stored_from_openai_replayed_as_anthropic(it: Stand, prompt: str, *, stream: bool) -> None:
    openai, anthropic = pair(prompt)
    first = await ask(it, openai | {"stream": stream})
    assert first["x-lamina-cache"] == "MISS"
    whole = await post(it, anthropic)
    streamed = await post(it, anthropic | {"stream": True})
    assert (whole["x-lamina-cache"], streamed["x-lamina-cache"]) == ("HIT", "HIT")
    assert whole["x-lamina-cache-id"] == streamed["x-lamina-cache-id"] == first["x-lamina-cache-id"]
    assert whole.json["content"] == [{"type": "text", "text": TEXT, "citations": None}]
    async with claude(it) as api, api.messages.stream(**anthropic) as events:
        pieces = [text async for text in events.text_stream]
        final = await events.get_final_message()
    assert pieces == (["Hello", " from", " up", "stream"] if stream else [TEXT])
    assert (final.stop_reason, final.usage.input_tokens, final.usage.output_tokens) == ("end_turn", 7, 4)
    assert len(it.upstream.calls) == 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_stored_from_anthropic_replayed_as_openai(it: Stand, prompt: str, *, stream: bool) -> None:
    openai, anthropic = pair(prompt)
    first = await post(it, anthropic | {"stream": stream})
    assert first["x-lamina-cache"] == "MISS"
    whole = await ask(it, openai)
    assert (whole["x-lamina-cache"], whole.text) == ("HIT", TEXT)
    assert whole["x-lamina-cache-id"] == first["x-lamina-cache-id"]
    assert whole.json["usage"]["total_tokens"] == 11
    async with it.client() as sdk:
        chunks = [chunk async for chunk in await sdk.chat.completions.create(**openai, stream=True)]
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices[0].delta.content]
    assert pieces == (["Hello", " from", " up", "stream"] if stream else [TEXT])
    assert len(it.upstream.calls) == 1


async def test_tool_calls_cross_both_ways(it: Stand, prompt: str) -> None:
    it.upstream.default = Script(pieces=None, tool_calls=[CALL], finish_reason="tool_calls")
    openai, anthropic = pair(prompt)
    await ask(it, openai | {"stream": True})
    async with claude(it) as api:
        for message in (await api.messages.create(**anthropic), await _final(api, anthropic)):
            (block,) = message.content
            assert block.to_dict() == {"type": "tool_use", "id": "call_1", "name": "look", "input": {"at": "sky"}}
            assert message.stop_reason == "tool_use"
    openai, anthropic = pair(prompt + " 2")
    await post(it, anthropic | {"stream": True})
    (choice,) = (await ask(it, openai)).json["choices"]
    assert choice["message"]["tool_calls"] == [CALL]
    assert choice["finish_reason"] == "tool_calls"
    assert len(it.upstream.calls) == 2


async def _final(api: Any, body: dict[str, Any]) -> Any:
    async with api.messages.stream(**body) as events:
        return await events.get_final_message()


async def test_a_client_of_one_protocol_joins_the_flight_of_the_other(it: Stand, prompt: str) -> None:
    it.upstream.default = Script(piece_delay_s=0.03)
    openai, anthropic = pair(prompt)
    async with it.client() as sdk, claude(it) as api:
        leader = await sdk.chat.completions.create(**openai, stream=True)
        async with api.messages.stream(**anthropic) as follower:
            assert await follower.get_final_text() == TEXT
            assert "collapsed" in follower.response.headers["cache-status"]
        assert [chunk async for chunk in leader]
    assert len(it.upstream.calls) == 1


async def test_another_tenant_shares_with_neither(it: Stand, prompt: str) -> None:
    openai, anthropic = pair(prompt)
    await ask(it, openai)
    other = await it.tenant("across")
    assert (await post(it, anthropic, key=other))["x-lamina-cache"] == "MISS"
    assert (await ask(it, openai, key=other))["x-lamina-cache"] == "HIT"
    assert (await post(it, anthropic))["x-lamina-cache"] == "HIT"
    assert len(it.upstream.calls) == 2


async def test_a_purge_in_one_is_a_purge_in_both(it: Stand, prompt: str) -> None:
    openai, anthropic = pair(prompt)
    reply = await ask(it, openai)
    await it.purge("key", reply["x-lamina-cache-id"])
    assert (await post(it, anthropic))["x-lamina-cache"] == "MISS"
    assert (await ask(it, openai))["x-lamina-cache"] == "HIT"


async def test_controls_work_in_both(it: Stand, prompt: str) -> None:
    body = told(prompt)
    assert (await post(it, body, ("cache-control", "no-store")))["x-lamina-cache"] == "MISS"
    assert (await ask(it, said(prompt, max_tokens=50)))["x-lamina-cache"] == "MISS"
    assert (await post(it, body))["x-lamina-cache"] == "HIT"
    assert (await post(it, body, ("cache-control", "no-cache")))["x-lamina-cache"] == "REFRESH"
    assert (await post(it, body | {"cache": {"namespace": "n"}}))["x-lamina-cache"] == "MISS"
