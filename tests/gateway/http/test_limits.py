"""Tenants' limits over real sockets and Redis: exact over workers, felt at once, and never another tenant's."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest
import pytest_asyncio

from gateway.db import OverrideRepository
from gateway.invalidation.announce import RedisAnnouncer
from policies.limits import Limits
from tests.gateway.http.wire import said
from tests.gateway.stand import KEY, Stand, running, settings_for
from tests.servers.redis import RedisServer
from tests.upstream import Script, Upstream


@pytest_asyncio.fixture
async def two(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[tuple[Stand, Stand]]:
    """Two workers of one set."""
    async with Upstream() as upstream:
        settings = settings_for(tmp_path, upstream, redis_server.url)
        async with running(settings, upstream) as one, running(settings, upstream) as other:
            yield one, other


async def limit(it: Stand, *, tenant: str = "default", **bounds: int) -> None:
    """Sets limits as the command line does."""
    state = await OverrideRepository(it.database).set_limits(tenant, Limits(**bounds), "test", time.time())
    await RedisAnnouncer.from_settings(it.settings).announce(state.tenant_id, state.auth_seq, state.purge_seq)


async def ask(it: Stand, words: str = "hello", key: str = KEY) -> int:
    """The status of one request."""
    async with it.client(key) as client:
        try:
            await client.chat.completions.create(model="m", messages=said(words)["messages"])
        except openai.APIStatusError as error:
            return error.status_code
    return 200


async def test_a_refusal_says_when_to_come_again(two: tuple[Stand, Stand]) -> None:
    await limit(two[0], requests_per_minute=0)
    async with two[0].client() as client:
        with pytest.raises(openai.RateLimitError) as refused:
            await client.chat.completions.create(model="m", messages=said("x")["messages"])
    assert 1 <= int(refused.value.response.headers["retry-after"]) <= 120
    assert (refused.value.code, refused.value.type) == ("rate_limit_exceeded", "requests")


async def test_requests_a_minute_over_two_workers(two: tuple[Stand, Stand]) -> None:
    one, other = two
    assert [await ask(one), await ask(other)] == [200, 200]
    await limit(one, requests_per_minute=10)
    statuses = await asyncio.gather(*[ask((one, other)[turn % 2], f"w{turn}") for turn in range(30)])
    assert sorted(statuses) == [200] * 10 + [429] * 20
    other_key = await one.tenant("other")
    assert await ask(one, key=other_key) == 200
    await limit(one)
    assert await ask(other) == 200


async def test_a_limit_holds_from_the_next_request_on_and_for_cached_answers_too(two: tuple[Stand, Stand]) -> None:
    one, other = two
    assert [await ask(one), await ask(other)] == [200, 200]
    await limit(one, requests_per_minute=0)
    assert [await ask(one), await ask(other)] == [429, 429]
    await limit(one, requests_per_minute=1000)
    assert [await ask(one), await ask(other)] == [200, 200]


async def test_a_fresh_worker_counts_its_first_request(two: tuple[Stand, Stand]) -> None:
    one, other = two
    await limit(one, requests_per_minute=1)
    assert [await ask(other), await ask(one)] == [200, 429]


async def test_tokens_a_day_are_those_that_models_process(two: tuple[Stand, Stand]) -> None:
    one, other = two
    await limit(one, tokens_per_day=5)
    assert await ask(one, "first") == 200
    async with asyncio.timeout(5):
        while await ask(other, "first") == 200:  # noqa: ASYNC110  (a hit until the tokens of the first have been counted)
            await asyncio.sleep(0.01)
    assert await ask(one, "second") == 429
    assert one.upstream.count == 1


async def test_requests_at_a_time_over_two_workers(two: tuple[Stand, Stand]) -> None:
    one, other = two
    await limit(one, concurrent=3)
    one.upstream.default = Script(delay_s=0.5)
    statuses = await asyncio.gather(*[ask((one, other)[turn % 2], f"c{turn}") for turn in range(9)])
    assert sorted(statuses) == [200] * 3 + [429] * 6
    one.upstream.default = Script()
    assert [await ask(one, "later"), await ask(other, "later still")] == [200, 200]


async def test_a_stranger_uses_nothing_up(two: tuple[Stand, Stand]) -> None:
    one, _ = two
    await limit(one, requests_per_minute=1)
    assert [await ask(one, key="lam_of_nobody_at_all") for _ in range(3)] == [401] * 3
    assert await ask(one) == 200


async def test_without_redis_each_worker_holds_to_the_limit(
    two: tuple[Stand, Stand], redis_server: RedisServer
) -> None:
    one, _ = two
    await limit(one, requests_per_minute=4)
    assert await ask(one, "0") == 200
    redis_server.kill()
    statuses = [await ask(one, str(turn)) for turn in range(1, 8)]
    assert statuses.count(200) <= 4
    assert statuses.count(429) >= 3


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_frees_its_place(two: tuple[Stand, Stand], stream: bool) -> None:
    one, _ = two
    await limit(one, concurrent=1)
    one.upstream.default = Script(delay_s=0.3)
    async with one.client(KEY, timeout=0.1) as client:
        with pytest.raises(openai.APITimeoutError):
            await client.chat.completions.create(model="m", messages=said("x")["messages"], stream=stream)
    one.upstream.default = Script()
    async with asyncio.timeout(5):
        while await ask(one, "after") == 429:  # noqa: ASYNC110  (no event to wait for)
            await asyncio.sleep(0.02)
