"""Prompt caching end to end: a whole set with its real engine, two tenants, both official SDKs.

Every request says no-store and no-cache: an answer of the exact layer would tell nothing of the engine.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anthropic
import openai
import pytest

from tests.gateway.stand import KEY
from tests.gateway.whole_set import WholeSet, whole_set

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
PAST_EXACT = {"cache-control": "no-store, no-cache"}
BLOCK = 16
CHUNK = 128
"""What a hit counts in where the engine has no native kernel."""

MODEL = "smollm2"
HOUR = {"type": "ephemeral", "ttl": "1h"}
WORDS = (
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "lazy",
    "dogs",
    "while",
    "seven",
    "wizards",
    "bake",
    "old",
    "bread",
)
TEMPLATE_TOKENS = 48
"""More than the template says before a user's first word: a tenant may read that from its own past."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeSet]:
    with whole_set(
        tmp_path_factory.mktemp("prompts") / "home", LAMINA_WORKERS="1", LAMINA_ENGINE__ENABLED="true"
    ) as one:
        asyncio.run(one.start())
        yield one
        assert "Traceback" not in one.running.output


@pytest.fixture(scope="module")
def other_key(running: WholeSet) -> str:
    async def made() -> str:
        await running.done("tenants", "create", "other")
        return str((await running.done("keys", "create", "--tenant", "other"))["key"])

    return asyncio.run(made())


class Sdks:
    """Official clients of one tenant."""

    def __init__(self, url: str, key: str) -> None:
        self.chat = openai.AsyncOpenAI(
            api_key=key, base_url=f"{url}/v1", max_retries=0, default_headers=PAST_EXACT, timeout=120
        )
        self.claude = anthropic.AsyncAnthropic(
            api_key=key, base_url=url, max_retries=0, default_headers=PAST_EXACT, timeout=120
        )

    async def close(self) -> None:
        await self.chat.close()
        await self.claude.close()

    async def ask(self, messages: list[Any], *, stream: bool = False, **fields: Any) -> dict[str, Any]:
        """The usage of one chat completion."""
        asked: dict[str, Any] = {"model": MODEL, "messages": messages, "max_tokens": 4, "temperature": 0, **fields}
        if not stream:
            answer = await self.chat.chat.completions.create(**asked)
            assert answer.usage is not None
            return answer.usage.model_dump()
        usage: Any = None
        options = {"include_usage": True}
        async for chunk in await self.chat.chat.completions.create(stream=True, stream_options=options, **asked):
            assert usage is None, "usage comes last and once"
            usage = chunk.usage
        return dict(usage.model_dump())

    async def tell(self, messages: list[Any], *, stream: bool = False, **fields: Any) -> dict[str, Any]:
        """The usage of one message."""
        asked: dict[str, Any] = {"model": MODEL, "messages": messages, "max_tokens": 4, **fields}
        if not stream:
            return (await self.claude.messages.create(**asked)).usage.model_dump()
        async with self.claude.messages.stream(**asked) as events:
            start: Any = None
            async for event in events:
                start = event.message.usage.model_dump() if event.type == "message_start" else start
            usage = (await events.get_final_message()).usage.model_dump()
        counted = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        assert [start[name] for name in counted] == [usage[name] for name in counted]
        return {**usage, "cache_creation": start["cache_creation"]}


@pytest.fixture
async def ours(running: WholeSet) -> AsyncIterator[Sdks]:
    async with contextlib.aclosing(_Closing(Sdks(running.url, KEY))) as it:
        yield it.sdks


@pytest.fixture
async def theirs(running: WholeSet, other_key: str) -> AsyncIterator[Sdks]:
    async with contextlib.aclosing(_Closing(Sdks(running.url, other_key))) as it:
        yield it.sdks


class _Closing:
    def __init__(self, sdks: Sdks) -> None:
        self.sdks = sdks

    async def aclose(self) -> None:
        await self.sdks.close()


NUMBERS = itertools.count(1)


def story(words: int = 110) -> str:
    """A little more tokens than words, that no other test sends: it differs from the first one on."""
    number = next(NUMBERS)
    return f"{number} " + " ".join(WORDS[(number * 7 + step * step) % len(WORDS)] for step in range(words))


def user(said: Any) -> dict[str, Any]:
    return {"role": "user", "content": said}


def invariants(usage: dict[str, Any]) -> tuple[int, int]:
    """Read and written tokens of a chat usage that adds up."""
    details = usage["prompt_tokens_details"]
    read, written = details["cached_tokens"], details["cache_write_tokens"]
    assert 0 <= read < usage["prompt_tokens"]
    assert 0 <= written <= usage["prompt_tokens"] - read
    assert sum(details["cache_write_tokens_details"].values()) <= written
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    return read, written


@pytest.mark.parametrize("stream", [False, True])
async def test_tenants_share_nothing_and_each_reads_its_own(ours: Sdks, theirs: Sdks, stream: bool) -> None:
    prompt = [user(story())]
    first = await ours.ask(prompt, stream=stream)
    again = await ours.ask(prompt, stream=stream)
    elsewhere = await theirs.ask(prompt, stream=stream)
    total = first["prompt_tokens"]
    assert total == again["prompt_tokens"] == elsewhere["prompt_tokens"]
    assert sum(invariants(first)) >= total // BLOCK * BLOCK - BLOCK
    assert total - BLOCK <= invariants(again)[0] < total
    assert invariants(again)[1] < BLOCK
    assert invariants(elsewhere)[0] < TEMPLATE_TOKENS
    assert elsewhere["prompt_tokens_details"].get("miss", {}).get("reason") != "salt"


async def test_a_client_cannot_reach_another_tenant_by_a_salt_of_its_own(ours: Sdks, theirs: Sdks) -> None:
    prompt = [user(story())]
    chosen = {"extra_body": {"cache_salt": "agreed"}}
    await ours.ask(prompt, **chosen)
    assert invariants(await theirs.ask(prompt, **chosen))[0] < TEMPLATE_TOKENS
    assert invariants(await ours.ask(prompt))[0] > TEMPLATE_TOKENS, "it is no division of the engine either"


@pytest.mark.parametrize("stream", [False, True])
async def test_anthropics_marks_are_created_then_read(ours: Sdks, stream: bool) -> None:
    system: Any = [{"type": "text", "text": story(150), "cache_control": HOUR}]
    first = await ours.tell([user("Who bakes?")], system=system, stream=stream)
    second = await ours.tell([user("What jumps?")], system=system, stream=stream)
    assert first["cache_read_input_tokens"] < TEMPLATE_TOKENS
    created = first["cache_creation_input_tokens"] + first["cache_read_input_tokens"]
    assert created > 100
    assert first["cache_creation"]["ephemeral_1h_input_tokens"] == first["cache_creation_input_tokens"]
    assert first["cache_creation"]["ephemeral_5m_input_tokens"] == 0
    assert created - BLOCK <= second["cache_read_input_tokens"] <= created + BLOCK
    for usage in (first, second):
        read, made = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
        assert usage["input_tokens"] > 0
        assert read + made + usage["input_tokens"] > created


async def test_without_marks_nothing_is_created_yet_all_is_read(ours: Sdks) -> None:
    prompt = [user(story())]
    first, second = [await ours.tell(prompt) for _ in range(2)]
    assert first["cache_creation_input_tokens"] == second["cache_creation_input_tokens"] == 0
    assert second["cache_read_input_tokens"] > 100
    total = first["input_tokens"] + first["cache_read_input_tokens"]
    assert second["input_tokens"] + second["cache_read_input_tokens"] == total


async def test_short_marks_are_let_pass_without_a_word(ours: Sdks) -> None:
    system: Any = [{"type": "text", "text": f"Be kind, {next(NUMBERS)}.", "cache_control": HOUR}]
    usage = await ours.tell([user("Hi")], system=system)
    assert usage["cache_creation_input_tokens"] == 0


@pytest.mark.parametrize("protocol", ["chat", "messages"])
async def test_a_pre_warm_answers_nothing_and_makes_the_next_request_read(ours: Sdks, protocol: str) -> None:
    prompt = [user(story())]
    if protocol == "chat":
        answer = await ours.chat.chat.completions.with_raw_response.create(
            model=MODEL, messages=prompt, max_tokens=0, extra_headers={"cache-control": "max-stale"}
        )
        parsed: Any = answer.parse()
        assert (parsed.choices[0].message.content, parsed.choices[0].finish_reason) == ("", "length")
        assert parsed.usage.completion_tokens == 0
    else:
        answer = await ours.claude.messages.with_raw_response.create(
            model=MODEL, messages=prompt, max_tokens=0, extra_headers={"cache-control": "max-stale"}
        )
        parsed = await answer.parse()
        assert (parsed.content, parsed.stop_reason, parsed.usage.output_tokens) == ([], "max_tokens", 0)
    assert answer.headers["x-lamina-cache"] == "BYPASS"
    read, written = invariants(await ours.ask(prompt))
    assert read > 100
    assert written < BLOCK


async def test_a_miss_is_explained_up_to_the_token(ours: Sdks) -> None:
    text = story(240)
    head = text[: len(text) * 3 // 5]
    await ours.ask([user(text)])
    changed = await ours.chat.chat.completions.with_raw_response.create(
        model=MODEL, messages=[user(f"{head} elsewhere, far away, {' '.join(WORDS)}")], max_tokens=2
    )
    parsed: Any = changed.parse()
    details = parsed.usage.model_dump()["prompt_tokens_details"]
    assert details["miss"]["reason"] == "differs"
    assert details["cached_tokens"] <= details["miss"]["at"] < details["cached_tokens"] + CHUNK
    assert changed.headers["x-lamina-prefix-miss"] == f"differs; at={details['miss']['at']}"


async def test_a_purge_of_everything_leaves_nothing_to_read(running: WholeSet, ours: Sdks, theirs: Sdks) -> None:
    prompt = [user(story())]
    for sdks in (ours, theirs):
        await sdks.ask(prompt)
    await running.done("purge", "--tenant", "other", "--all")
    assert invariants(await theirs.ask(prompt))[0] == 0
    assert invariants(await theirs.ask(prompt))[0] > 100
    assert invariants(await ours.ask(prompt))[0] > 100, "another tenant's purge is none of ours"


async def test_several_answers_count_their_prompt_once(ours: Sdks) -> None:
    prompt = [user(story())]
    one = await ours.ask(prompt, temperature=1, n=3)
    again = await ours.ask(prompt, temperature=1, n=3)
    assert one["prompt_tokens"] == again["prompt_tokens"] < 300
    assert invariants(one)[1] > 100
    assert invariants(again)[0] > 100
