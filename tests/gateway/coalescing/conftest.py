"""Two gateways over one Redis, one database and one scripted upstream: two replicas, in one process."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest_asyncio

from tests.gateway.http.wire import measured
from tests.gateway.stand import Stand, running, settings_for
from tests.servers.redis import RedisServer
from tests.upstream import Upstream

LEASE_MS = 400


@dataclass(slots=True)
class Pair:
    """Two gateways that know of each other through Redis alone."""

    one: Stand
    two: Stand
    upstream: Upstream
    redis: RedisServer

    async def counted(self, name: str, **labels: str) -> float:
        """A metric over both."""
        return await measured(self.one, name, **labels) + await measured(self.two, name, **labels)

    async def counts(self, name: str, least: int, **labels: str) -> None:
        """Returns once a metric over both is so high."""
        async with asyncio.timeout(5):
            while await self.counted(name, **labels) < least:  # noqa: ASYNC110  (a page can only be asked again)
                await asyncio.sleep(0.01)


async def listening(redis: RedisServer, workers: int) -> None:
    """Returns when so many inboxes are subscribed to."""
    async with asyncio.timeout(5):
        while redis.command("PUBSUB", "CHANNELS", "lamina:inbox:*").count(b"lamina:inbox:") < workers:  # noqa: ASYNC110  (it can only be asked again)
            await asyncio.sleep(0.01)


@pytest_asyncio.fixture
async def pair(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Pair]:
    """Both, listening."""
    cache = {"coalescing_lease_ms": LEASE_MS, "coalescing_deadline_ms": 500}
    async with Upstream() as upstream:
        redis = {"deadline_ms": 1000}
        settings = settings_for(tmp_path, upstream, redis_server.url, cache=cache, redis=redis)
        async with running(settings, upstream) as one, running(settings, upstream) as two:
            await listening(redis_server, 2)
            yield Pair(one, two, upstream, redis_server)
