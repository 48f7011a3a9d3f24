"""What every layer of LAYERS keeps: it answers its own tenant, scope and versions, and nothing that was purged."""

import importlib
import zlib
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from gateway.db import KeyRepository
from gateway.layers import LAYERS
from tests.gateway.http.wire import Pair
from tests.gateway.semantic_stand import PARAPHRASE, QUESTION, Meaning, meaning
from tests.gateway.stand import KEY
from tests.servers.redis import RedisServer

ASKED = {"exact": QUESTION, "semantic": PARAPHRASE}
"""What each layer may answer once it knows the answer to QUESTION."""

SECRET = ("x-lamina-cache-scope", "user"), ("x-lamina-user", "ann")
FORGED: list[tuple[Pair, ...]] = [
    (),
    (("x-tenant", "default"), ("x-tenant-id", "default"), ("x-lamina-tenant", "default")),
    (("x-lamina-cache-scope", "tenant"),),
    (("x-lamina-cache-namespace", "default"),),
    (("x-lamina-versions", "tenant=default"),),
    (("x-forwarded-user", "default"), ("cookie", "tenant=default")),
    SECRET,
]
NARROWER: list[tuple[Pair, ...]] = [
    SECRET,
    (("x-lamina-cache-scope", "session"), ("x-lamina-session", "s1")),
    (("x-lamina-cache-scope", "conversation"), ("x-lamina-conversation", "c1")),
    (("x-lamina-cache-namespace", "blue"),),
    (("x-lamina-versions", "prompt=2"),),
]

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def module_redis() -> Iterator[RedisServer]:
    """A Redis of this module's own."""
    server = RedisServer()
    server.start()
    yield server
    server.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gate(tmp_path_factory: pytest.TempPathFactory, module_redis: RedisServer) -> AsyncIterator[Meaning]:
    """One gateway for the module; each test asks under a model parameter of its own."""
    async with meaning(tmp_path_factory.mktemp("contract"), module_redis) as running:
        yield running


@pytest.fixture(params=LAYERS)
def layer(request: pytest.FixtureRequest) -> str:
    """Each layer in turn."""
    return str(request.param)


@pytest.fixture
def own(request: pytest.FixtureRequest) -> dict[str, object]:
    """A field of the request that sets a test's entries apart from all others."""
    return {"seed": zlib.crc32(request.node.nodeid.encode())}


async def test_a_line_of_the_table_names_a_class_that_knows_its_name(layer: str) -> None:
    module, _, name = LAYERS[layer].partition(":")
    kind = getattr(importlib.import_module(module), name)
    assert kind.name == layer
    assert callable(kind.from_parts)


async def test_it_answers_its_own_tenant(gate: Meaning, layer: str, own: dict[str, object]) -> None:
    await gate.taught(**own)
    assert (await gate.ask(ASKED[layer], **own))["cache-status"].endswith(f"; detail={layer}")


@pytest.mark.parametrize("headers", FORGED)
async def test_no_header_reaches_another_tenants_answer(
    gate: Meaning, layer: str, own: dict[str, object], headers: tuple[Pair, ...]
) -> None:
    taught = await gate.taught(QUESTION, *headers, **own)
    stranger = await gate.it.tenant(f"t{own['seed']}")
    reply = await gate.ask(ASKED[layer], *headers, key=stranger, **own)
    assert "fwd=" in reply["cache-status"]
    assert reply["x-lamina-cache-id"] != taught["x-lamina-cache-id"]
    assert (await gate.ask(ASKED[layer], *headers, key=KEY, **own))["cache-status"].endswith(f"detail={layer}")


@pytest.mark.parametrize("headers", NARROWER)
async def test_a_narrower_answer_stays_inside_and_a_wider_one_outside(
    gate: Meaning, layer: str, own: dict[str, object], headers: tuple[Pair, ...]
) -> None:
    await gate.taught(QUESTION, *headers, **own)
    assert "fwd=" in (await gate.ask(ASKED[layer], **own))["cache-status"]
    others = tuple((name, value.replace("ann", "bob").replace("1", "9")) for name, value in headers)
    if others != headers:
        assert "fwd=" in (await gate.ask(ASKED[layer], *others, **own))["cache-status"]
    assert (await gate.ask(ASKED[layer], *headers, **own))["cache-status"].endswith(f"detail={layer}")


async def test_nothing_purged_is_answered(gate: Meaning, layer: str, own: dict[str, object]) -> None:
    await gate.taught(QUESTION, ("x-lamina-cache-groups", f"g{own['seed']}"), **own)
    await gate.it.purge("tag", f"g{own['seed']}")
    assert "purged" in (await gate.ask(ASKED[layer], **own))["cache-status"]


async def test_a_revoked_key_gets_nothing(gate: Meaning, layer: str, own: dict[str, object]) -> None:
    name = f"r{own['seed']}"
    key = await gate.it.tenant(name)
    await gate.taught(QUESTION, key=key, **own)
    (record,) = await KeyRepository(gate.it.database).list(name)
    await gate.it.revoke(record.key_id)
    assert (await gate.ask(ASKED[layer], key=key, **own)).status == 401
