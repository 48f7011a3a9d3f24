"""A whole set with the real service and its packaged models: paraphrases are answered, traps are not."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
import pytest_asyncio

from tests.gateway.stand import KEY
from tests.gateway.whole_set import WholeSet, until, upstream_of, whole_set
from tests.upstream import Upstream

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

QUESTION = "How do I reset my password?"
PARAPHRASE = "How can I reset my password?"
SAME = ("how to reset my password", "How do I reset my password", "What is the way to reset my password?")
TRAPS = (
    "How do I change my username?",
    "Why can't I reset my password?",
    "How do I reset my PIN?",
    "How do I reset my password twice?",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def it(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[WholeSet, Upstream]]:
    """A running set with one worker, whose service has loaded its models."""
    environment = {"LAMINA_CACHE__MODE": "semantic", "LAMINA_SEMANTIC__RULE": "fixed", "LAMINA_WORKERS": "1"}
    environment |= {"LAMINA_SEMANTIC__DEADLINE_MS": "5000", "LAMINA_GUARDS__DEADLINE_MS": "1000"}
    home: Path = tmp_path_factory.mktemp("real") / "home"
    with whole_set(home, **environment) as running:
        async with upstream_of(running) as upstream:
            await running.start()
            await until(lambda: '"semantic":"ok"' in running.running.get("/readyz"), within_s=90)
            yield running, upstream


async def status_of(running: WholeSet, words: str, **fields: Any) -> str:
    """What `Cache-Status` says of one question of the official SDK."""
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{running.url}/v1", max_retries=0) as client:
        asked: Any = [{"role": "user", "content": words}]
        raw = await client.chat.completions.with_raw_response.create(model="m", messages=asked, **fields)
        return str(raw.headers["cache-status"])


async def taught(running: WholeSet, **fields: Any) -> None:
    """Returns once QUESTION's answer can be found by meaning, which takes the service a moment."""
    await status_of(running, QUESTION, **fields)
    async with asyncio.timeout(20):
        number = 0
        while "detail=semantic;" not in f"{await status_of(running, QUESTION + ' ' * number, **fields)};":
            number += 1
            await asyncio.sleep(0.2)


async def test_the_official_sdk_gets_a_paraphrase_answered(it: tuple[WholeSet, Upstream]) -> None:
    running, upstream = it
    await taught(running, seed=1)
    calls = len(upstream.calls)
    assert (await status_of(running, PARAPHRASE, seed=1)).endswith("; detail=semantic")
    assert (await status_of(running, PARAPHRASE, seed=1)).endswith("; detail=exact")
    told = [await status_of(running, words, seed=1) for words in SAME]
    assert sum(status.endswith("; detail=semantic") for status in told) >= 2
    assert len(upstream.calls) <= calls + 1


async def test_traps_are_answered_by_the_model(it: tuple[WholeSet, Upstream]) -> None:
    running, _ = it
    await taught(running, seed=2)
    told = {words: await status_of(running, words, seed=2) for words in TRAPS}
    assert {words: status for words, status in told.items() if "; hit" in status} == {}


async def test_a_streamed_hit_replays(it: tuple[WholeSet, Upstream]) -> None:
    running, upstream = it
    await taught(running, seed=3)
    calls = len(upstream.calls)
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{running.url}/v1", max_retries=0) as client:
        asked: Any = [{"role": "user", "content": PARAPHRASE}]
        stream = await client.chat.completions.create(model="m", messages=asked, seed=3, stream=True)
        parts = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
    assert "".join(parts) == "Hello from upstream"
    assert len(upstream.calls) == calls


async def test_anthropics_protocol_gets_it_too(it: tuple[WholeSet, Upstream]) -> None:
    running, upstream = it
    await taught(running, max_tokens=77)
    calls = len(upstream.calls)
    async with anthropic.AsyncAnthropic(api_key=KEY, base_url=running.url, max_retries=0) as client:
        asked: Any = [{"role": "user", "content": PARAPHRASE}]
        raw = await client.messages.with_raw_response.create(model="m", max_tokens=77, messages=asked)
        assert raw.headers["cache-status"].endswith("; detail=semantic")
        told = (await raw.parse()).content[0]
        assert isinstance(told, anthropic.types.TextBlock)
        assert told.text == "Hello from upstream"
    assert len(upstream.calls) == calls


async def test_the_command_line_shows_previews_and_purges_by_meaning(it: tuple[WholeSet, Upstream]) -> None:
    running, _ = it
    await taught(running, seed=8)
    listed = (await running.done("entries", "list", "--model", "m"))["entries"]
    entry = next(one for one in listed if one["layer"] == "semantic")
    shown = await running.done("entries", "show", entry["id"], "--text")
    assert (shown["question"].strip(), shown["answer"][0]["content"]) == (QUESTION, "Hello from upstream")
    near = ("purge", "--tenant", "default", "--near", PARAPHRASE, "--similarity", "0.8")
    preview = await running.done(*near, "--dry-run")
    assert preview["matches"]["semantic"] > 0
    assert (await status_of(running, QUESTION, seed=8)).endswith("; detail=exact")
    told = await running.done(*near)
    assert (told["kind"], told["mode"]) == ("meaning", "hard")
    assert 0 < told["members"] <= preview["matches"]["semantic"], "rows of one answer are one member"
    assert "; hit" not in await status_of(running, PARAPHRASE, seed=8)


async def test_the_command_line_deletes_an_entry_and_says_what_is_unknown(it: tuple[WholeSet, Upstream]) -> None:
    running, _ = it
    await status_of(running, "What is deleted?", seed=9)
    [entry, *_] = (await running.done("entries", "list", "--limit", "1"))["entries"]
    deleted = await running.done("entries", "delete", entry["id"])
    assert (deleted["kind"], deleted["value"]) == ("entry", entry["id"])
    listed = (await running.done("entries", "list", "--limit", "1000"))["entries"]
    assert entry["id"] not in {one["id"] for one in listed}
    dry = await running.done("purge", "--tenant", "default", "--tag", "nobody-has-this", "--dry-run")
    assert set(dry["matches"].values()) == {0}
    unknown = await running.lamina("entries", "list", "--tenant", "nobody")
    assert (unknown.status, "nobody" in unknown.error) == (1, True)
