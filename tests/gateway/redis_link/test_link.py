"""The link to a Redis that is frozen, killed, absent, read-only or full: refusals in time, recovery by itself."""

import asyncio
import time

import pytest
from pydantic import SecretStr

from gateway.errors import StoreUnavailable
from gateway.redis_link import RedisLink
from gateway.settings import RedisSettings, Settings
from gateway.wiring.build import _link as link_of
from tests.gateway.redis_link.conftest import DEADLINE_S, RETRY_S, SLACK_S, Connect, Linked
from tests.gateway.redis_link.proxy import Proxy, Toxics
from tests.servers.redis import RedisServer

BACK_WITHIN_S = 5.0


async def until_back(link: RedisLink) -> float:
    """Seconds until a call succeeds; no call may take longer than the deadline."""
    began = time.perf_counter()
    while time.perf_counter() - began < BACK_WITHIN_S:
        asked = time.perf_counter()
        try:
            await link.call("PING")
        except StoreUnavailable:
            assert time.perf_counter() - asked < DEADLINE_S + SLACK_S
            await asyncio.sleep(0.02)
        else:
            return time.perf_counter() - began
    raise AssertionError("the link did not come back")


async def until_open(linked: Linked) -> int:
    """How many calls are refused until the breaker opens, each within the deadline."""
    for count in range(1, 20):
        began = time.perf_counter()
        with pytest.raises(StoreUnavailable):
            await linked.link.call("PING")
        assert time.perf_counter() - began < DEADLINE_S + SLACK_S
        if not linked.link.open:
            return count
    raise AssertionError("the breaker did not open")


async def costs_nothing(link: RedisLink) -> None:
    """Calls are refused at once while the breaker is open."""
    costs_s = []
    for _ in range(50):
        began = time.perf_counter()
        with pytest.raises(StoreUnavailable, match="breaker open"):
            await link.call("PING")
        costs_s.append(time.perf_counter() - began)
    assert sorted(costs_s)[45] < 0.001


async def test_a_frozen_server(redis_server: RedisServer, connect: Connect) -> None:
    linked = connect()
    await linked.link.call("SET", "k", "v")
    redis_server.stop()
    assert await until_open(linked) <= 5
    assert set(linked.faults) == {"timeout"}
    await costs_nothing(linked.link)
    redis_server.cont()
    assert await until_back(linked.link) < BACK_WITHIN_S
    assert linked.link.open
    reply, epoch = await linked.link.read("GET", "k")
    assert (reply, epoch) == (b"v", 2)


async def test_many_callers_of_a_frozen_server_all_go_on_in_time(
    redis_server: RedisServer, connect: Connect
) -> None:
    linked = connect()
    await linked.link.call("PING")
    redis_server.stop()
    began = time.perf_counter()
    outcomes = await asyncio.gather(*(linked.link.call("PING") for _ in range(500)), return_exceptions=True)
    assert all(isinstance(one, StoreUnavailable) for one in outcomes)
    assert time.perf_counter() - began < DEADLINE_S + SLACK_S
    assert linked.faults == ["timeout"]
    assert linked.link.open


@pytest.mark.slow
async def test_callers_that_gave_up_do_not_hide_a_frozen_server(
    redis_server: RedisServer, connect: Connect
) -> None:
    linked = connect()
    await linked.link.call("PING")
    redis_server.stop()
    for _ in range(6):
        with pytest.raises((TimeoutError, StoreUnavailable)):
            await asyncio.wait_for(linked.link.call("PING"), DEADLINE_S / 2)
        await asyncio.sleep(DEADLINE_S)
    assert not linked.link.open


async def test_a_killed_and_restarted_server(redis_server: RedisServer, connect: Connect) -> None:
    linked = connect()
    await linked.link.call("SET", "k", "v")
    redis_server.kill()
    with pytest.raises(StoreUnavailable):
        await linked.link.call("GET", "k")
    assert await until_open(linked) <= 5
    await costs_nothing(linked.link)
    redis_server.start()
    assert await until_back(linked.link) < BACK_WITHIN_S
    assert await linked.link.read("GET", "k") == (None, 2)


async def test_a_server_absent_at_start(redis_server: RedisServer, connect: Connect) -> None:
    redis_server.kill()
    linked = connect()
    assert await until_open(linked) == 5
    assert linked.faults == ["connect"] * 5
    redis_server.start()
    assert await until_back(linked.link) < BACK_WITHIN_S
    assert await linked.link.read("PING") == (b"PONG", 1)


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", f"redis://{'a' * 64}/0", "unix:///nowhere/redis.sock"])
async def test_an_address_where_nobody_is(connect: Connect, url: str) -> None:
    linked = connect(url, failures=1)
    with pytest.raises(StoreUnavailable, match="connect"):
        await linked.link.call("PING")
    await costs_nothing(linked.link)


async def test_the_breaker_counts_failures_in_a_row(connect: Connect, proxy: Proxy) -> None:
    linked = connect(proxy.url, failures=2)
    for _ in range(4):
        proxy.toxics = Toxics(cut_after=0)
        with pytest.raises(StoreUnavailable):
            await linked.link.call("PING")
        assert linked.link.open
        proxy.toxics = Toxics()
        await linked.link.call("PING")
        connection = linked.link._connection
        assert connection is not None
        connection._transport.abort()  # type: ignore[union-attr]
        await asyncio.sleep(0.01)
        linked.link._failures = 0
    assert linked.link.open


async def test_callers_share_one_attempt_to_connect(connect: Connect, proxy: Proxy) -> None:
    proxy.toxics = Toxics(delay_s=0.02)
    link = connect(proxy.url, deadline_s=1.0).link
    asking = [asyncio.create_task(link.call("ECHO", f"{number}")) for number in range(20)]
    await asyncio.sleep(0.005)
    asking[0].cancel()
    outcomes = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(outcomes[0], asyncio.CancelledError)
    assert outcomes[1:] == [b"%d" % number for number in range(1, 20)]
    assert proxy.connections == 1


async def test_every_connection_has_a_higher_epoch(redis_server: RedisServer, connect: Connect) -> None:
    link = connect(failures=100).link
    epochs = []
    for _ in range(4):
        epochs.append((await link.read("PING"))[1])
        assert (await link.read("PING"))[1] == epochs[-1]
        await connect().link.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await asyncio.sleep(0.02)
    assert epochs == sorted(set(epochs))


@pytest.mark.parametrize("way", ["call", "post"])
async def test_a_primary_that_became_a_replica_is_left(
    redis_server: RedisServer, connect: Connect, way: str
) -> None:
    linked = connect()
    assert await linked.link.read("PING") == (b"PONG", 1)
    redis_server.command("REPLICAOF", "127.0.0.1", "1")
    try:
        if way == "call":
            with pytest.raises(StoreUnavailable, match="READONLY"):
                await linked.link.call("SET", "k", "v")
        else:
            reply = linked.link.post("SET", "k", "v")
            assert reply is not None
            with pytest.raises(Exception, match="READONLY"):
                await reply
        assert "readonly" in linked.faults
        assert (await linked.link.read("PING"))[1] == 2
    finally:
        redis_server.command("REPLICAOF", "NO", "ONE")
    assert await linked.link.call("SET", "k", "v") == b"OK"


async def test_a_wrong_type_is_the_fault_of_one_command(connect: Connect) -> None:
    linked = connect()
    await linked.link.call("RPUSH", "list", "a")
    outcomes = await asyncio.gather(
        linked.link.call("GET", "list"), linked.link.call("ECHO", "fine"), return_exceptions=True
    )
    assert (str(outcomes[0]), outcomes[1]) == ("Redis refused: WRONGTYPE", b"fine")
    for _ in range(10):
        with pytest.raises(StoreUnavailable):
            await linked.link.call("GET", "list")
    assert set(linked.faults) == {"reply_wrongtype"}
    assert await linked.link.read("PING") == (b"PONG", 1)


async def test_a_full_server_is_the_fault_of_one_command(redis_server: RedisServer, connect: Connect) -> None:
    linked = connect()
    await linked.link.call("PING")
    redis_server.command("CONFIG", "SET", "maxmemory", "1")
    for _ in range(10):
        with pytest.raises(StoreUnavailable, match="OOM"):
            await linked.link.call("SET", "k", "v", "PX", 1000)
    assert set(linked.faults) == {"reply_oom"}
    assert await linked.link.read("GET", "k") == (None, 1)


async def test_deadlines_are_those_of_the_settings(redis_server: RedisServer) -> None:
    """The public case is litellm#35273: a URL in place of fields dropped the time limit."""
    settings = Settings(
        redis_url=SecretStr(redis_server.url + "?socket_timeout=60&timeout=60"),
        redis=RedisSettings(deadline_ms=50, breaker_failures=3, breaker_retry_ms=200),
    )
    link = link_of(settings, lambda _: None)
    try:
        await link.call("PING")
        redis_server.stop()
        for _ in range(3):
            assert link.open
            began = time.perf_counter()
            with pytest.raises(StoreUnavailable):
                await link.call("PING")
            assert 0.049 <= time.perf_counter() - began < 0.05 + SLACK_S
        assert not link.open
        redis_server.cont()
        assert await until_back(link) < 1
    finally:
        await link.close()


def test_the_settings_own_defaults_are_safe() -> None:
    defaults = RedisSettings()
    assert defaults.deadline_ms <= 100
    assert defaults.breaker_failures <= 5
    assert defaults.breaker_retry_ms <= 5000


async def test_raise_to_never_lowers(connect: Connect) -> None:
    link = connect(deadline_s=2.0).link
    await link.raise_to({"{t}:a": 5, "{t}:b": 7})
    await link.raise_to({"{t}:a": 3, "{t}:b": 9})
    assert await link.call("MGET", "{t}:a", "{t}:b") == [b"5", b"9"]
    await asyncio.gather(*(link.raise_to({"{t}:a": (number * 7919) % 1000}) for number in range(1000)))
    assert await link.call("GET", "{t}:a") == b"999"
    await link.raise_to({"{t}:a": 0, "{t}:new": 0})
    assert await link.call("MGET", "{t}:a", "{t}:new") == [b"999", b"0"]


async def test_raise_to_repairs_what_is_no_number(connect: Connect) -> None:
    link = connect().link
    await link.call("SET", "{t}:a", "nonsense")
    await link.raise_to({"{t}:a": 4})
    assert await link.call("GET", "{t}:a") == b"4"


@pytest.mark.parametrize("state", ["new", "idle", "asking", "connecting", "probing"])
async def test_close_leaves_nothing_behind(connect: Connect, proxy: Proxy, state: str) -> None:
    linked = connect(proxy.url, deadline_s=2.0, failures=1)
    link = linked.link
    if state in ("idle", "asking"):
        await link.call("PING")
    proxy.toxics.swallow = state in ("asking", "connecting")
    asking = None
    if state in ("asking", "connecting"):
        asking = asyncio.create_task(link.call("PING"))
        await asyncio.sleep(0.05)
    if state == "probing":
        proxy.toxics = Toxics(cut_after=0)
        with pytest.raises(StoreUnavailable):
            await link.call("PING")
        assert not link.open
    await link.close()
    if asking is not None:
        with pytest.raises(StoreUnavailable):
            await asking
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not any(name.startswith("redis-") for name in names)
    assert not link.open
    assert link.post("PING") is None
    with pytest.raises(StoreUnavailable):
        await link.call("PING")
    await link.close()
    await asyncio.sleep(RETRY_S * 1.5 if state == "probing" else 0)
    assert len(linked.faults) == (1 if state == "probing" else 0)


async def test_a_connection_that_redis_closed_while_it_was_idle_costs_no_answer(
    connect: Connect, redis_server: RedisServer
) -> None:
    linked = connect()
    await linked.link.call("SET", "k", "hello")
    for _ in range(3):
        redis_server.command("CLIENT", "KILL", "TYPE", "normal")
        assert await linked.link.call("GET", "k") == b"hello"
    assert linked.link.open
    assert await linked.link.read("GET", "k") == (b"hello", 4)
