"""Prompt caching through the gateway: marks reach an engine, salts follow the tenant and its purges."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from gateway.settings import ModelSettings, ProviderSettings
from gateway.telemetry.report import read_report
from tests.gateway.stand import KEY, Stand, running, settings_for
from tests.servers.redis import RedisServer
from tests.upstream import Script, Upstream

HOUR = {"type": "ephemeral", "ttl": "1h"}
NO_STORE = {"cache-control": "no-store, no-cache"}


@pytest.fixture
async def it(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Stand]:
    """A gateway whose upstream is taken for the engine."""
    async with Upstream() as upstream:
        settings = settings_for(
            tmp_path,
            upstream,
            redis_server.url,
            providers={"engine": ProviderSettings(kind="engine", base_url=upstream.base_url)},
            models=(ModelSettings(name="m", provider="engine"),),
        )
        async with running(settings, upstream) as stand:
            yield stand


class Clients:
    """The official SDKs against one gateway, closed with the test."""

    def __init__(self, it: Stand, open_until: contextlib.AsyncExitStack) -> None:
        self._it, self._open_until = it, open_until

    async def asking(self, key: str = KEY) -> openai.AsyncOpenAI:
        """Asks neither for stored answers nor to have its own stored."""
        return await self._open_until.enter_async_context(self._it.client(key, default_headers=NO_STORE))

    async def caching(self) -> openai.AsyncOpenAI:
        """Lets the exact layer answer."""
        return await self._open_until.enter_async_context(self._it.client())

    async def claude(self) -> anthropic.AsyncAnthropic:
        client = anthropic.AsyncAnthropic(api_key=KEY, base_url=self._it.url, max_retries=0)
        return await self._open_until.enter_async_context(client)


@pytest.fixture
async def clients(it: Stand) -> AsyncIterator[Clients]:
    async with contextlib.AsyncExitStack() as open_until:
        yield Clients(it, open_until)


async def test_marks_reach_the_engine_and_the_entry_is_shared_with_unmarked_requests(
    it: Stand, clients: Clients, prompt: str
) -> None:
    system: Any = [{"type": "text", "text": f"Rules: {prompt}", "cache_control": HOUR}]
    message: Any = {"role": "user", "content": "Hi"}
    client = await clients.claude()
    await client.messages.create(model="m", max_tokens=9, system=system, messages=[message])
    sent = it.upstream.calls[0].body["messages"]
    assert sent[0]["content"] == [{"type": "text", "text": f"Rules: {prompt}", "cache_control": HOUR}]
    plain = [{"role": "system", "content": f"Rules: {prompt}"}, message]
    chat = await clients.caching()
    answer = await chat.chat.completions.with_raw_response.create(model="m", max_tokens=9, messages=plain)
    assert answer.headers["x-lamina-cache"] == "HIT"
    marked = [{"role": "system", "content": system}, message]
    uncached = await clients.asking()
    await uncached.chat.completions.create(model="m", max_tokens=9, messages=marked)
    assert it.upstream.calls[1].body["messages"] == marked, "OpenAI's own form is passed on as it came"
    assert len(it.upstream.calls) == 2


async def test_the_salt_is_the_tenants_whatever_a_client_sends(it: Stand, clients: Clients, prompt: str) -> None:
    other = await it.tenant("other")
    messages: Any = [{"role": "user", "content": prompt}]
    for key in (KEY, other):
        for extra in ({}, {"cache_salt": "chosen"}, {"cache_salt": None}):
            client = await clients.asking(key)
            await client.chat.completions.create(model="m", messages=messages, extra_body=extra)
    salts = [call.body["cache_salt"] for call in it.upstream.calls]
    assert len(set(salts[:3])) == len(set(salts[3:])) == 1
    assert salts[0] != salts[3]
    assert "chosen" not in salts


async def test_a_purge_of_everything_or_of_a_user_makes_another_salt(
    it: Stand, clients: Clients, prompt: str
) -> None:
    messages: Any = [{"role": "user", "content": prompt}]

    async def salt() -> str:
        client = await clients.asking()
        await client.chat.completions.create(model="m", messages=messages)
        return str(it.upstream.calls[-1].body["cache_salt"])

    salts = [await salt()]
    for kind, value, mode in (
        ("all", "", "hard"),
        ("user", "ann", "hard"),
        ("all", "", "soft"),
        ("tag", "x", "hard"),
        ("model", "m", "hard"),
    ):
        await it.purge(kind, value, mode)
        salts.append(await salt())
    assert len(set(salts[:3])) == 3
    assert len(set(salts[2:])) == 1


async def test_another_epoch_of_the_operators_is_another_salt_for_everybody(
    tmp_path: Path, redis_server: RedisServer, prompt: str
) -> None:
    salts: list[str] = []
    for epoch in ("0", "1", "0"):
        async with Upstream() as upstream:
            settings = settings_for(
                tmp_path,
                upstream,
                redis_server.url,
                engine={"enabled": False, "cache_epoch": epoch},
                providers={"engine": ProviderSettings(kind="engine", base_url=upstream.base_url)},
                models=(ModelSettings(name="m", provider="engine"),),
            )
            async with running(settings, upstream) as it, it.client(default_headers=NO_STORE) as client:
                await client.chat.completions.create(model="m", messages=[{"role": "user", "content": prompt}])
            salts.append(upstream.calls[0].body["cache_salt"])
    assert salts[0] == salts[2] != salts[1]


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
async def test_a_pre_warm_asks_the_model_each_time_and_is_never_stored(
    it: Stand, clients: Clients, prompt: str, protocol: str
) -> None:
    warmed = Script(pieces=None, finish_reason="length", usage={"prompt_tokens": 90, "completion_tokens": 0})
    it.upstream.default = warmed
    messages: Any = [{"role": "user", "content": prompt}]
    for _ in range(2):
        if protocol == "openai":
            chat = await clients.caching()
            raw: Any = await chat.chat.completions.with_raw_response.create(
                model="m", messages=messages, max_tokens=0
            )
            assert raw.parse().choices[0].finish_reason == "length"
        else:
            claude = await clients.claude()
            raw = await claude.messages.with_raw_response.create(model="m", messages=messages, max_tokens=0)
            message = await raw.parse()
            assert (message.content, message.stop_reason) == ([], "max_tokens")
        assert raw.headers["x-lamina-cache"] == "BYPASS"
        assert "stored" not in raw.headers["cache-status"]
    assert [call.body["max_tokens"] for call in it.upstream.calls] == [0, 0]


async def test_why_a_prefix_missed_is_told_live_and_not_of_a_replay(
    it: Stand, clients: Clients, prompt: str
) -> None:
    details = {"cached_tokens": 16, "miss": {"reason": "differs", "at": 17}}
    usage = {"prompt_tokens": 90, "completion_tokens": 2, "total_tokens": 92, "prompt_tokens_details": details}
    it.upstream.enqueue(Script(usage=usage, headers={"x-lamina-prefix-miss": "differs; at=17"}))
    messages: Any = [{"role": "user", "content": prompt}]
    chat = await clients.caching()
    raws: Any = [
        await chat.chat.completions.with_raw_response.create(model="m", messages=messages) for _ in range(2)
    ]
    live, replay = (raw.parse().usage.model_dump()["prompt_tokens_details"] for raw in raws)
    assert live["miss"] == {"reason": "differs", "at": 17}
    assert replay["cached_tokens"] == 16
    assert "miss" not in replay
    assert [raw.headers.get("x-lamina-prefix-miss") for raw in raws] == ["differs; at=17", None]


async def test_what_the_engine_had_cached_counts_as_saved_once(it: Stand, clients: Clients, prompt: str) -> None:
    usage = {"prompt_tokens": 90, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 64}}
    it.upstream.default = Script(usage=usage)
    chat = await clients.caching()
    messages: Any = [{"role": "user", "content": prompt}]
    for _ in range(2):
        await chat.chat.completions.create(model="m", messages=messages)
    async with httpx2.AsyncClient() as http:
        found = read_report((await http.get(f"{it.url}/metrics")).text)
    assert (found.model_prompt_tokens, found.prompt_cached_tokens) == (90, 64)
    assert found.layers[0].saved_prompt_tokens == 90, "the replay saved its whole prompt in the exact layer"
