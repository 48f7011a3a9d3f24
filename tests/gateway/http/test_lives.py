"""Lives by name, chosen by header or route, clamped, and shortened by a jitter that belongs to the key."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from gateway.settings import ModelSettings
from tests.gateway.http.wire import Pair, Reply, ask, native, said
from tests.gateway.stand import Stand, stand
from tests.servers.redis import RedisServer

MODELS = (
    ModelSettings(name="m", provider="up"),
    ModelSettings(name="news", provider="up", ttl_class="news"),
    ModelSettings(name="own", provider="up", ttl_class="news", ttl_s=50),
)
CACHE = {
    "ttl_s": 5000,
    "max_ttl_s": 7000,
    "ttl_classes": {
        "news": {"ttl_s": 1000, "jitter": 0.5},
        "steady": {"ttl_s": 2000, "jitter": 0},
        "long": {"ttl_s": 90000, "jitter": 0},
    },
}


@pytest_asyncio.fixture
async def it(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Stand]:
    """A gateway with three classes."""
    async with stand(tmp_path, redis_server, cache=CACHE, models=MODELS, guards={"enabled": False}) as running:
        yield running


def left_s(reply: Reply) -> int:
    found = re.search(r"hit; ttl=(\d+)", reply["cache-status"])
    assert found is not None, reply["cache-status"]
    return int(found[1])


async def life_s(it: Stand, text: str, *headers: Pair, model: str = "m") -> int:
    """The life that a new entry gets."""
    body = {**said(text), "model": model}
    await ask(it, body, *headers)
    return left_s(await ask(it, body))


def named(name: str) -> Pair:
    return "x-lamina-cache-class", name


async def test_a_request_names_a_class_and_none_outlives_the_longest_life(it: Stand) -> None:
    assert 4980 <= await life_s(it, "plain") <= 5000
    assert 1980 <= await life_s(it, "steady", named("steady")) <= 2000
    assert 6980 <= await life_s(it, "long", named("long")) <= 7000
    assert 10 <= await life_s(it, "seconds", named("long"), ("x-lamina-cache-ttl", "30")) <= 30


async def test_a_route_has_a_class_and_its_own_seconds_go_before(it: Stand) -> None:
    lives = [await life_s(it, f"q{number}", model="news") for number in range(12)]
    assert all(490 <= life <= 1000 for life in lives)
    assert len({life // 50 for life in lives}) > 3
    assert 30 <= await life_s(it, "own", model="own") <= 50


async def test_the_jitter_of_a_key_is_the_same_each_time(it: Stand) -> None:
    first = await life_s(it, "q", named("news"))
    await it.purge()
    assert abs(await life_s(it, "q", named("news")) - first) <= 15


async def test_a_class_that_there_is_not_is_refused(it: Stand) -> None:
    native(await ask(it, said("q"), named("weather")), 400, code="invalid_cache_control")
