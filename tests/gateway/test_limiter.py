"""The limiter on a real Redis: one write with the look-up, counts over workers, places that come back."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.errors import ApiError
from gateway.layers.exact import ExactLayer
from gateway.limits import LEASE_S, Limiter
from gateway.redis_link import RedisLink, RedisTarget
from policies.limits import Limits
from tests.gateway.redis_link.proxy import Proxy
from tests.servers.redis import RedisServer

T = "T0123456789ABCDEF"
USE, UNDER_WAY = f"lamina:{{{T}}}:use", f"lamina:{{{T}}}:under_way"


@asynccontextmanager
async def limiters(url: str, count: int = 1) -> AsyncIterator[list[tuple[Limiter, RedisLink]]]:
    """Limiters of so many workers, connected."""
    faults: list[str] = []
    links = [
        RedisLink(RedisTarget.parse(url), deadline_s=2.0, failures=3, retry_s=0.1, on_fault=faults.append)
        for _ in range(count)
    ]
    for link in links:
        await link.call("PING")
    try:
        yield [(Limiter(link, time.time), link) for link in links]
    finally:
        for link in links:
            await link.close()


@asynccontextmanager
async def heard(redis: RedisServer, folder: Path) -> AsyncIterator[Proxy]:
    """What is sent to Redis, piece by piece."""
    proxy = Proxy(redis.socket_path, folder / "p.sock")
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()


async def admitted(limiter: Limiter, limits: Limits, request_id: str) -> bool:
    try:
        await limiter.admit(limiter.ask(T, limits, request_id), limits, request_id)
    except ApiError as error:
        return error.status != 429
    return True


def held(redis: RedisServer, *words: str) -> str:
    """What Redis answers, as text; empty for nothing."""
    head, text, *_ = redis.command(*words).decode().split("\r\n")
    return "" if head == "$-1" else text


def within_a_minute() -> None:
    """Waits where the minute is about to end."""
    left_s = 60 - time.time() % 60
    if left_s < 2:
        time.sleep(left_s)


async def test_counting_leaves_in_the_write_of_the_look_up(redis_server: RedisServer, tmp_path: Path) -> None:
    async with heard(redis_server, tmp_path) as proxy, limiters(proxy.url) as [(limiter, link)]:
        proxy.heard.clear()
        limits = Limits(requests_per_minute=5, concurrent=5, tokens_per_day=100)
        asking = limiter.ask(T, limits, "req_1")
        await ExactLayer(link).look_up(T, "0" * 64)
        (piece,) = proxy.heard
        assert piece.index(b"HMGET") < piece.index(b"MGET\r\n$")
        await limiter.admit(asking, limits, "req_1")
        assert len(proxy.heard) == 1


async def test_who_is_not_limited_sends_nothing(redis_server: RedisServer, tmp_path: Path) -> None:
    async with heard(redis_server, tmp_path) as proxy, limiters(proxy.url) as [(limiter, _)]:
        proxy.heard.clear()
        limiter.leave("req_1")
        limiter.spent(T, 5)
        limiter.renew_once()
        await asyncio.sleep(0.02)
        assert proxy.heard == []


@pytest.mark.parametrize("bound", [1, 7])
async def test_exactly_so_many_a_minute_over_workers_at_once(redis_server: RedisServer, bound: int) -> None:
    within_a_minute()
    limits = Limits(requests_per_minute=bound)
    async with limiters(redis_server.url, 3) as workers:
        asked = [admitted(workers[turn % 3][0], limits, f"req_{turn}") for turn in range(40)]
        assert sum(await asyncio.gather(*asked)) == bound
        await asyncio.sleep(0.02)
        assert int(held(redis_server, "HGET", USE, "count")) == bound


async def test_places_come_back_when_requests_end_or_their_worker_dies(redis_server: RedisServer) -> None:
    limits = Limits(concurrent=2)
    async with limiters(redis_server.url, 2) as [(one, _), (other, _)]:
        assert [await admitted(one, limits, "a"), await admitted(other, limits, "b")] == [True, True]
        assert not await admitted(one, limits, "c")
        one.leave("a")
        one.leave("a")
        one.leave("never came")
        await asyncio.sleep(0.02)
        assert await admitted(other, limits, "d")
        assert not await admitted(one, limits, "e")
        past = str(time.time() - 1)
        redis_server.command("ZADD", UNDER_WAY, "XX", past, "b")  # as after a minute in which nobody renewed it
        assert await admitted(one, limits, "f")


async def test_long_requests_are_renewed(redis_server: RedisServer) -> None:
    async with limiters(redis_server.url) as [(limiter, link)]:
        assert await admitted(limiter, Limits(concurrent=1), "long")
        redis_server.command("ZADD", UNDER_WAY, "XX", str(time.time() + 1), "long")
        limiter.renew_once()
        await link.call("PING")
        until_s = float(held(redis_server, "ZSCORE", UNDER_WAY, "long"))
        assert until_s - time.time() > LEASE_S - 5
        limiter.leave("long")
        limiter.renew_once()
        await link.call("PING")
        assert held(redis_server, "ZSCORE", UNDER_WAY, "long") == ""


async def test_tokens_are_of_this_day_alone(redis_server: RedisServer) -> None:
    limits = Limits(tokens_per_day=100)
    today = int(time.time() // 86_400)
    async with limiters(redis_server.url, 2) as [(one, link), (other, _)]:
        redis_server.command("HSET", USE, "day", str(today - 1), "tokens", "5000")
        assert await admitted(one, limits, "a")
        one.spent(T, 60)
        await link.call("PING")
        assert await admitted(other, limits, "b")
        one.spent(T, 60)
        await link.call("PING")
        assert not await admitted(other, limits, "c")
        assert int(held(redis_server, "HGET", USE, "tokens")) == 120


async def test_the_minute_before_is_carried_over(redis_server: RedisServer) -> None:
    within_a_minute()
    minute = int(time.time() // 60)
    limits = Limits(requests_per_minute=1000)
    async with limiters(redis_server.url) as [(limiter, _)]:
        for then, before in ((minute - 1, "40"), (minute - 2, "0")):
            redis_server.command("HSET", USE, "minute", str(then), "count", "40", "before", "7")
            assert await admitted(limiter, limits, f"req_{then}")
            assert held(redis_server, "HGET", USE, "before") == before
            assert held(redis_server, "HGET", USE, "count") == "1"


async def test_a_reply_of_another_shape_is_no_reply(redis_server: RedisServer) -> None:
    redis_server.command("SET", USE, "not a hash")
    limits = Limits(requests_per_minute=2)
    async with limiters(redis_server.url) as [(limiter, _)]:
        assert [await admitted(limiter, limits, str(turn)) for turn in range(3)] == [True, True, False]
