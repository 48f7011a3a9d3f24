"""The exact layer against a real Redis: one round trip, a life on every entry, none on a sequence."""

import re
from collections.abc import AsyncIterator

import pytest

from gateway.errors import StoreUnavailable
from gateway.layers import LAYERS
from gateway.layers.exact import ExactLayer, Found, auth_key, entry_key, purge_key
from gateway.redis_link import RedisLink, RedisTarget
from tests.servers.redis import RedisServer

DIGEST = "ab" * 32


@pytest.fixture
async def link(redis_server: RedisServer) -> AsyncIterator[RedisLink]:
    target = RedisTarget.parse(redis_server.url)
    faults: list[str] = []
    made = RedisLink(target, deadline_s=2.0, failures=5, retry_s=0.2, on_fault=faults.append)
    yield made
    await made.close()


@pytest.fixture
def layer(link: RedisLink) -> ExactLayer:
    return ExactLayer(link)


def calls(server: RedisServer) -> dict[str, int]:
    """How often each command ran since `CONFIG RESETSTAT`."""
    text = server.command("INFO", "commandstats").decode()
    found = {name: int(count) for name, count in re.findall(r"cmdstat_([^:]+):calls=(\d+)", text)}
    return {name: count for name, count in found.items() if not name.startswith(("config", "info"))}


def test_it_is_in_the_table() -> None:
    module, _, name = LAYERS["exact"].partition(":")
    assert (module, name) == (ExactLayer.__module__, ExactLayer.__name__)
    assert ExactLayer.name == "exact"


async def test_an_empty_redis_knows_nothing(layer: ExactLayer) -> None:
    assert await layer.look_up("t1", DIGEST) == Found(None, None, None, 1)
    assert await layer.look_up("t1", None) == Found(None, None, None, 1)


@pytest.mark.parametrize("digest", [DIGEST, None])
async def test_a_look_up_is_one_command(redis_server: RedisServer, layer: ExactLayer, digest: str | None) -> None:
    redis_server.command("SET", auth_key("t1"), "3")
    redis_server.command("SET", purge_key("t1"), "5")
    redis_server.command("SET", entry_key("t1", DIGEST), b"\x00\xffvalue")
    await layer.look_up("t1", None)
    redis_server.command("CONFIG", "RESETSTAT")
    found = await layer.look_up("t1", digest)
    assert found == Found(3, 5, b"\x00\xffvalue" if digest else None, 1)
    assert calls(redis_server) == {"mget": 1}


async def test_a_write_is_one_command_and_the_next_look_up_finds_it(
    redis_server: RedisServer, layer: ExactLayer
) -> None:
    await layer.look_up("t1", None)
    redis_server.command("CONFIG", "RESETSTAT")
    reply = layer.write("t1", DIGEST, b"v", 60.0)
    found = await layer.look_up("t1", DIGEST)
    assert found.value == b"v"
    assert reply is not None
    assert await reply == b"OK"
    assert calls(redis_server) == {"set": 1, "mget": 1}


@pytest.mark.parametrize(("keep_s", "least_ms", "most_ms"), [(60.0, 50_000, 60_000), (0.5, 1, 500), (0.0, -2, 1)])
async def test_every_entry_has_a_life(
    redis_server: RedisServer, layer: ExactLayer, keep_s: float, least_ms: int, most_ms: int
) -> None:
    await layer.look_up("t1", None)
    reply = layer.write("t1", DIGEST, b"v", keep_s)
    assert reply is not None
    await reply
    left_ms = int(redis_server.command("PTTL", entry_key("t1", DIGEST))[1:-2])
    assert least_ms <= left_ms <= most_ms


async def test_a_second_write_begins_a_new_life(redis_server: RedisServer, layer: ExactLayer) -> None:
    await layer.look_up("t1", None)
    for keep_s in (1.0, 100.0):
        reply = layer.write("t1", DIGEST, b"v", keep_s)
        assert reply is not None
        await reply
    assert int(redis_server.command("PTTL", entry_key("t1", DIGEST))[1:-2]) > 50_000


async def test_sequences_live_for_ever(redis_server: RedisServer, link: RedisLink) -> None:
    await link.raise_to({auth_key("t1"): 1, purge_key("t1"): 2})
    await link.raise_to({auth_key("t1"): 3, purge_key("t1"): 4})
    for key in (auth_key("t1"), purge_key("t1")):
        assert redis_server.command("PTTL", key) == b":-1\r\n"


async def test_a_write_with_no_connection_is_not_queued(redis_server: RedisServer, layer: ExactLayer) -> None:
    assert layer.write("t1", DIGEST, b"v", 60.0) is None
    redis_server.kill()
    with pytest.raises(StoreUnavailable):
        await layer.look_up("t1", DIGEST)
    assert layer.write("t1", DIGEST, b"v", 60.0) is None


async def test_drop_deletes_one_entry(redis_server: RedisServer, layer: ExactLayer) -> None:
    redis_server.command("SET", purge_key("t1"), "5")
    redis_server.command("SET", entry_key("t1", DIGEST), "v")
    assert (await layer.look_up("t1", DIGEST)).value == b"v"
    layer.drop("t1", DIGEST)
    assert await layer.look_up("t1", DIGEST) == Found(None, 5, None, 1)


@pytest.mark.parametrize("value", ["", "-1", "1.5", "x", " 1", "1e3", "9" * 19, "9" * 5000, "\u0661"])
async def test_a_sequence_that_is_no_number_is_unknown(
    redis_server: RedisServer, layer: ExactLayer, value: str
) -> None:
    redis_server.command("SET", purge_key("t1"), value)
    assert (await layer.look_up("t1", DIGEST)).purge_seq is None


async def test_a_key_of_another_type_is_unknown(redis_server: RedisServer, layer: ExactLayer) -> None:
    redis_server.command("RPUSH", entry_key("t1", DIGEST), "a")
    redis_server.command("RPUSH", purge_key("t1"), "a")
    assert await layer.look_up("t1", DIGEST) == Found(None, None, None, 1)


def test_keys_of_tenants_never_meet_and_a_tenant_stays_in_one_slot() -> None:
    names = ["t1", "t11", "t1:e", "t1}:purge"]
    made = [make(name) for name in names for make in (auth_key, purge_key, lambda name: entry_key(name, DIGEST))]
    assert len(set(made)) == len(made)
    assert all(key.startswith("lamina:{t1") for key in made)
