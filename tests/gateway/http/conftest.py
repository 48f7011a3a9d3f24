"""One gateway per module for tests that leave it as it was; each asks under a prompt of its own."""

from collections.abc import AsyncIterator, Iterator

import openai
import pytest
import pytest_asyncio

from gateway.settings import CacheSettings, ModelSettings
from tests.gateway.stand import Stand, stand
from tests.servers.redis import RedisServer
from tests.upstream import Script

MODELS = (
    ModelSettings(name="m", provider="up", aliases=("alias", "a/b")),
    ModelSettings(name="watched", provider="up", mode="observe"),
    ModelSettings(name="plain", provider="up", mode="off"),
    ModelSettings(name="brief", provider="up", ttl_s=1),
    ModelSettings(name="first", provider="up", fallback=("second",)),
    ModelSettings(name="second", provider="up"),
    ModelSettings(name="before", provider="up", upstream_model="v", versions={"kb": "1"}),
    ModelSettings(name="after", provider="up", upstream_model="v", versions={"kb": "2"}),
)
CACHE = CacheSettings(stale_s=60, max_ttl_s=2 * 24 * 3600)


@pytest.fixture(scope="session")
def gate_redis() -> Iterator[RedisServer]:
    """A Redis that nobody flushes while a module's gateway runs."""
    server = RedisServer()
    server.start()
    yield server
    server.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gate(tmp_path_factory: pytest.TempPathFactory, gate_redis: RedisServer) -> AsyncIterator[Stand]:
    """The module's gateway."""
    async with stand(tmp_path_factory.mktemp("gate"), gate_redis, models=MODELS, cache=CACHE) as running:
        yield running


@pytest.fixture
def it(gate: Stand) -> Stand:
    """The module's gateway; its upstream has no script queued and remembers no call."""
    gate.upstream._scripts.clear()
    gate.upstream.calls.clear()
    gate.upstream.default = Script()
    return gate


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sdk(gate: Stand) -> AsyncIterator[openai.AsyncOpenAI]:
    """The official client of the module's gateway."""
    async with gate.client() as client:
        yield client


@pytest.fixture
def prompt(request: pytest.FixtureRequest) -> str:
    """A prompt that no other test asks."""
    return str(request.node.nodeid)
