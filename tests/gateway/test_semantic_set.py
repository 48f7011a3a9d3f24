"""A whole set in mode semantic: the service is one of its children, and both workers answer by meaning."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest
import pytest_asyncio

from tests.gateway.semantic_stand import PARAPHRASE, QUESTION
from tests.gateway.stand import KEY
from tests.gateway.whole_set import WholeSet, say, until, upstream_of, whole_set
from tests.upstream import Upstream

pytestmark = pytest.mark.slow


@pytest_asyncio.fixture
async def it(tmp_path: Path) -> AsyncIterator[tuple[WholeSet, Upstream]]:
    """A running set whose service compares words."""
    environment = {
        "LAMINA_CACHE__MODE": "semantic",
        "LAMINA_SEMANTIC__MIN_PROBABILITY": "0.6",
        "LAMINA_SEMANTIC__RULE": "fixed",
    }
    environment |= {"LAMINA_SEMANTIC__DEADLINE_MS": "2000", "LAMINA_GUARDS__ENABLED": "false"}
    environment |= {"LAMINA_ENCRYPTION__ENABLED": "false"}  # the scripted service reads questions in clear
    with whole_set(tmp_path / "home", semantic="tests.servers.nominator", **environment) as running:
        async with upstream_of(running) as upstream:
            await running.start()
            await until(lambda: '"semantic":"ok"' in running.running.get("/readyz"), within_s=30)
            yield running, upstream


async def test_both_workers_answer_by_meaning_with_the_official_sdk(it: tuple[WholeSet, Upstream]) -> None:
    running, upstream = it
    assert "semantic" in running.running.children()
    async with running.lines() as lines:
        one, other = lines.values()
        first = await say(one, QUESTION)
        await until(lambda: _served(running, "Change my password, please"))
        calls = len(upstream.calls)
        for number, line in enumerate((one, other)):
            reply = await say(line, PARAPHRASE + "?" * number)
            assert reply["cache-status"].endswith("; detail=semantic")
            assert reply.text == first.text
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{running.url}/v1", max_retries=0) as client:
        asked = [{"role": "user", "content": "Could I reset the password, please?"}]
        raw = await client.chat.completions.with_raw_response.create(model="m", messages=asked)  # type: ignore[call-overload]
        assert raw.headers["cache-status"].endswith("; detail=semantic")
        asked = [{"role": "user", "content": "Please, how do I change my passphrase?"}]
        stream = await client.chat.completions.create(model="m", messages=asked, stream=True)  # type: ignore[call-overload]
        parts = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
        assert "".join(parts) == first.text
    assert len(upstream.calls) == calls


async def test_a_killed_service_comes_back_and_costs_no_request(it: tuple[WholeSet, Upstream]) -> None:
    running, _ = it
    async with running.lines() as lines:
        one = next(iter(lines.values()))
        await say(one, QUESTION)
        pid = running.kill("semantic")
        replies = [await say(one, f"Question {number}, what is it?") for number in range(5)]
        assert {reply.status for reply in replies} == {200}
    await until(lambda: running.running.children().get("semantic", pid) != pid)
    await until(lambda: _served(running, PARAPHRASE), within_s=30)


async def test_a_set_that_stops_stops_it(it: tuple[WholeSet, Upstream]) -> None:
    running, _ = it
    pid = running.running.children()["semantic"]
    assert await asyncio.to_thread(running.running.stop) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


async def _served(running: WholeSet, words: str) -> bool:
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{running.url}/v1", max_retries=0) as client:
        asked = [{"role": "user", "content": words}]
        raw = await client.chat.completions.with_raw_response.create(model="m", messages=asked)  # type: ignore[call-overload]
        return str(raw.headers["cache-status"]).endswith(("; detail=semantic", "; detail=exact"))
