"""Announcing: raises, never lowers, gives up in bounded time, and needs nobody when an embedded Redis is off."""

import time
from pathlib import Path

import pytest

from gateway.errors import StoreUnavailable
from gateway.invalidation.announce import RedisAnnouncer
from gateway.invalidation.telling import each_told
from gateway.redis_link import RedisTarget
from tests.servers.redis import RedisServer


def sequences(redis: RedisServer) -> tuple[bytes, bytes]:
    return redis.command("GET", "lamina:{t}:auth"), redis.command("GET", "lamina:{t}:purge")


async def test_sequences_rise_and_never_fall(redis_server: RedisServer) -> None:
    announcer = RedisAnnouncer(RedisTarget.parse(redis_server.url), embedded=False)
    await announcer.announce("t", 3, 5)
    await announcer.announce("t", 1, 7)
    await announcer.announce("t", 4, 2)
    assert sequences(redis_server) == (b"$1\r\n4\r\n", b"$1\r\n7\r\n")


async def test_an_embedded_redis_that_is_off_needs_no_word(tmp_path: Path) -> None:
    announcer = RedisAnnouncer(RedisTarget.parse(f"unix://{tmp_path}/redis.sock"), embedded=True)
    await announcer.announce("t", 1, 1)


async def test_a_redis_elsewhere_that_is_off_is_told_to_the_caller(tmp_path: Path) -> None:
    announcer = RedisAnnouncer(RedisTarget.parse(f"unix://{tmp_path}/redis.sock"), embedded=False, give_up_s=0.5)
    begun = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await announcer.announce("t", 1, 1)
    assert time.monotonic() - begun < 2


@pytest.mark.slow
async def test_a_frozen_redis_is_told_to_the_caller_in_bounded_time(redis_server: RedisServer) -> None:
    announcer = RedisAnnouncer(RedisTarget.parse(redis_server.url), embedded=True, give_up_s=1.0)
    redis_server.stop()
    begun = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await announcer.announce("t", 1, 1)
    assert time.monotonic() - begun < 4


async def test_a_redis_that_comes_back_in_time_is_told(redis_server: RedisServer) -> None:
    redis_server.kill()
    announcer = RedisAnnouncer(RedisTarget.parse(redis_server.url), embedded=False, give_up_s=5.0)
    redis_server.start()
    await announcer.announce("t", 1, 1)
    assert sequences(redis_server) == (b"$1\r\n1\r\n", b"$1\r\n1\r\n")


@pytest.mark.parametrize(
    ("confirmed", "within_s", "asked", "all_told"), [(3, 9.0, 3, True), (1, 9.0, 2, False), (3, 0.0, 0, False)]
)
async def test_many_tenants_are_told_until_one_is_not_confirmed_or_the_time_is_up(
    confirmed: int, within_s: float, asked: int, *, all_told: bool
) -> None:
    told: list[tuple[str, int, int]] = []

    async def announce(tenant_id: str, auth_seq: int, purge_seq: int) -> bool:
        told.append((tenant_id, auth_seq, purge_seq))
        return len(told) <= confirmed

    heads = {f"t{number}": (number, number + 1) for number in range(3)}
    assert await each_told(announce, heads, within_s) is all_told
    assert [one[0] for one in told] == list(heads)[:asked]
