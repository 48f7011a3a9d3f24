"""Links to a real Redis, straight or through a proxy; each test ends with every one of them closed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.redis_link import RedisLink, RedisTarget
from tests.gateway.redis_link.proxy import Proxy
from tests.servers.redis import RedisServer

DEADLINE_S = 0.1
RETRY_S = 0.2
SLACK_S = 1.0


@dataclass(slots=True)
class Linked:
    """A link and the faults that it counted."""

    link: RedisLink
    faults: list[str]


Connect = Callable[..., Linked]


@pytest.fixture
async def connect(redis_server: RedisServer) -> AsyncIterator[Connect]:
    """Makes links; the default is to the shared server, with a deadline of 100 ms."""
    made: list[RedisLink] = []

    def link(url: str | None = None, deadline_s: float = DEADLINE_S, failures: int = 5) -> Linked:
        faults: list[str] = []
        target = RedisTarget.parse(url or redis_server.url)
        one = RedisLink(target, deadline_s=deadline_s, failures=failures, retry_s=RETRY_S, on_fault=faults.append)
        made.append(one)
        return Linked(one, faults)

    yield link
    for one in made:
        await one.close()


@pytest.fixture
async def proxy(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxy]:
    """A proxy before the shared server."""
    made = Proxy(redis_server.socket_path, Path(tmp_path_factory.mktemp("px")) / "p.sock")
    await made.start()
    yield made
    await made.close()


@pytest.fixture(autouse=True)
async def unheard() -> AsyncIterator[list[dict[str, Any]]]:
    """What the loop complained of, such as an exception that nobody looked at; it must be nothing."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
    yield complaints
    await asyncio.sleep(0)
    assert complaints == []
