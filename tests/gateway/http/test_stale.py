"""Answers past their life: served while a refresh flies behind, or when the model fails, and renewed ahead."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.gateway.http.wire import Reply, ask, control, said
from tests.gateway.stand import Stand, stand
from tests.servers.redis import RedisServer
from tests.upstream import Script


@pytest_asyncio.fixture
async def it(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Stand]:
    """A gateway whose entries live a second, and may be served for a while after."""
    cache = {"ttl_s": 1, "stale_while_revalidate_s": 2, "stale_if_error_s": 60, "early_refresh_beta": 0}
    async with stand(tmp_path, redis_server, cache=cache, guards={"enabled": False}) as running:
        yield running


async def until_fresh(it: Stand, text: str) -> Reply:
    async with asyncio.timeout(5):
        while True:
            reply = await ask(it, said("q"))
            if reply.text == text:
                return reply
            await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_a_stale_answer_is_served_while_one_refresh_flies(it: Stand) -> None:
    first = await ask(it, said("q"))
    it.upstream.default = Script(pieces=("newer",), delay_s=0.2)
    await asyncio.sleep(1.1)
    replies = await asyncio.gather(*(ask(it, said("q")) for _ in range(10)))
    assert {reply.text for reply in replies} == {first.text}
    assert all("detail=exact-revalidating" in reply["cache-status"] for reply in replies)
    assert {reply["x-lamina-cache"] for reply in replies} == {"STALE"}
    assert {reply["x-lamina-cache-refresh"] for reply in replies} == {"stale"}
    await until_fresh(it, "newer")
    assert len(it.upstream.calls) == 2


@pytest.mark.slow
async def test_a_request_that_will_not_wait_for_less_gets_a_fresh_one(it: Stand) -> None:
    await ask(it, said("q"))
    await asyncio.sleep(1.1)
    it.upstream.default = Script(pieces=("newer",))
    assert (await ask(it, said("q"), control("max-age=1"))).text == "newer"


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    "failure", [Script(drop=True), Script(status=503, body={"error": {"message": "no"}})], ids=["cut", "503"]
)
async def test_a_failing_model_is_stood_in_for(it: Stand, failure: Script, *, stream: bool) -> None:
    await ask(it, said("q"))
    it.upstream.default = failure
    await asyncio.sleep(3.2)
    reply = await ask(it, said("q", stream=stream))
    assert reply.status == 200
    assert "detail=exact-if_error" in reply["cache-status"]
    assert b"Hello" in reply.body
    assert (await ask(it, said("another"))).status in (502, 503)


@pytest.mark.slow
async def test_a_wrong_request_and_a_hard_purge_are_not_stood_in_for(it: Stand) -> None:
    await ask(it, said("q"))
    it.upstream.default = Script(status=400, body={"error": {"message": "no"}})
    await asyncio.sleep(3.2)
    assert (await ask(it, said("q"))).status == 400
    it.upstream.default = Script(status=503, body={"error": {"message": "no"}})
    await it.purge()
    assert (await ask(it, said("q"))).status == 503


@pytest.mark.slow
async def test_a_soft_purge_serves_and_refreshes(it: Stand) -> None:
    await ask(it, said("q"))
    await it.purge(mode="soft")
    it.upstream.default = Script(pieces=("newer",))
    assert "detail=exact-revalidating" in (await ask(it, said("q")))["cache-status"]
    await until_fresh(it, "newer")


@pytest.mark.slow
async def test_a_hot_entry_is_refreshed_before_its_end(tmp_path: Path, redis_server: RedisServer) -> None:
    cache = {"ttl_s": 2, "early_refresh_beta": 5}
    async with stand(tmp_path, redis_server, cache=cache, guards={"enabled": False}) as it:
        it.upstream.default = Script(delay_s=0.3)
        await ask(it, said("q"))
        seen = set()
        for _ in range(80):
            reply = await ask(it, said("q"))
            seen.add(reply["x-lamina-cache"])
            if reply.get("x-lamina-cache-refresh") == "early":
                break
            await asyncio.sleep(0.02)
        else:
            pytest.fail("never refreshed")
        assert seen == {"HIT"}
        await it.upstream.until(calls=2, within_s=3)
