"""The metrics say which parts answer and which are left alone, on an idle gateway too."""

import asyncio
from pathlib import Path

import pytest

from tests.gateway.http.wire import ask, measured, said
from tests.gateway.stand import Stand, stand
from tests.servers.redis import RedisServer
from tests.upstream import Script

pytestmark = pytest.mark.slow


async def until(it: Stand, wanted: float, name: str, part: str) -> None:
    async with asyncio.timeout(15):
        while await measured(it, name, part=part) != wanted:  # noqa: ASYNC110  (a page has no event)
            await asyncio.sleep(0.1)


async def test_a_part_that_goes_and_comes_back_is_told(tmp_path: Path, redis_server: RedisServer) -> None:
    async with stand(tmp_path, redis_server) as it:
        await until(it, 1, "lamina_part_up", "redis")
        await until(it, 1, "lamina_part_up", "database")
        assert await measured(it, "lamina_breaker_open") == 0
        redis_server.kill()
        await until(it, 0, "lamina_part_up", "redis")
        await until(it, 1, "lamina_breaker_open", "redis")
        assert await measured(it, "lamina_part_up", part="database") == 1
        redis_server.restart()
        await until(it, 1, "lamina_part_up", "redis")
        await until(it, 0, "lamina_breaker_open", "redis")


async def test_the_breaker_of_a_provider_is_told(tmp_path: Path, redis_server: RedisServer) -> None:
    async with stand(tmp_path, redis_server) as it:
        it.upstream.default = Script(drop=True)
        for number in range(8):
            await ask(it, said(f"question {number}"))
        await until(it, 1, "lamina_breaker_open", "provider:up")
