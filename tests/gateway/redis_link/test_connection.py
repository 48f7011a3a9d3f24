"""One connection: one write a loop turn, each reply to its own caller, and never a reply to another."""

import asyncio
import contextlib
import random
import time
from typing import Any

import pytest

from gateway.errors import StoreUnavailable
from gateway.redis_link import RedisLink
from gateway.redis_link.connection import Connection
from tests.gateway.redis_link.conftest import DEADLINE_S, SLACK_S, Connect
from tests.gateway.redis_link.proxy import Proxy, Toxics
from tests.servers.redis import RedisServer


class Recorder:
    """Counts the writes on their way to a transport."""

    def __init__(self, transport: Any) -> None:
        self.writes: list[bytes] = []
        self._transport = transport

    def write(self, data: bytes) -> None:
        self.writes.append(data)
        self._transport.write(data)

    def abort(self) -> None:
        self._transport.abort()


async def test_commands_of_one_loop_turn_leave_in_one_write(connect: Connect) -> None:
    link = connect().link
    await link.call("PING")
    connection = link._connection
    assert connection is not None
    recorder = Recorder(connection._transport)
    connection._transport = recorder  # type: ignore[assignment]
    replies = await asyncio.gather(*(link.call("ECHO", f"{number}") for number in range(100)))
    assert replies == [b"%d" % number for number in range(100)]
    assert len(recorder.writes) == 1
    assert recorder.writes[0].count(b"ECHO") == 100
    link.post("SET", "k", "v")
    assert await link.call("GET", "k") == b"v"
    assert len(recorder.writes) == 2


async def test_replies_match_callers_through_a_thousand_cancellations(connect: Connect, proxy: Proxy) -> None:
    """The public case is redis-py#2624: a cancelled caller left its reply to the next one."""
    proxy.toxics = Toxics(delay_s=0.002)
    link = connect(proxy.url, deadline_s=5.0).link
    chance = random.Random(2624)
    await link.call("PING")

    loop = asyncio.get_running_loop()

    async def ask(number: int, give_up: bool) -> bytes:
        await asyncio.sleep(chance.random() * 0.3)
        if give_up:
            task = asyncio.current_task()
            assert task is not None
            loop.call_later(chance.random() * 0.002, task.cancel)
        return bytes(await link.call("ECHO", f"for {number}"))

    gave_up = set(chance.sample(range(2000), 1000))
    asking = [asyncio.create_task(ask(number, number in gave_up)) for number in range(2000)]
    outcomes = await asyncio.gather(*asking, return_exceptions=True)
    for number, outcome in enumerate(outcomes):
        cancelled = number in gave_up and isinstance(outcome, asyncio.CancelledError)
        assert cancelled or outcome == b"for %d" % number
    assert sum(isinstance(one, asyncio.CancelledError) for one in outcomes) >= 900
    assert (await link.read("ECHO", "last")) == (b"last", 1)
    assert proxy.connections == 1


async def test_a_connection_cut_at_any_byte_refuses_and_never_hangs_or_lies(
    connect: Connect, proxy: Proxy
) -> None:
    greeting, reply = b"+PONG\r\n", b"$5\r\nhello\r\n"
    await connect().link.call("SET", "k", "hello")
    for cut_after in range(len(greeting) + len(reply) + 1):
        proxy.toxics = Toxics(cut_after=cut_after)
        link = connect(proxy.url, deadline_s=1.0).link
        began = time.perf_counter()
        try:
            answer = await asyncio.wait_for(link.call("GET", "k"), 5)
        except StoreUnavailable:
            assert cut_after < len(greeting) + len(reply)
        else:
            assert (answer, cut_after) == (b"hello", len(greeting) + len(reply))
        assert time.perf_counter() - began < 0.9, cut_after
        proxy.toxics = Toxics()
        assert await link.call("GET", "k") == b"hello"


async def test_a_connection_lost_before_its_first_command_is_refused_at_once(
    connect: Connect, proxy: Proxy
) -> None:
    linked = connect(proxy.url)
    await linked.link.call("PING")
    connection = linked.link._connection
    assert connection is not None
    connection.fail("test")
    with pytest.raises(StoreUnavailable, match="connection lost"):
        connection.call(("PING",))
    assert await linked.link.read("PING") == (b"PONG", 2)


@pytest.mark.parametrize(
    "garbage",
    [
        b"garbage\r\n",
        b"\x00" * 100,
        b"\xff\xfe\r\n",
        b"$-5\r\nhello\r\n",
        b":abc\r\n",
        b"*-7\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x16\x03\x01\x00\x05hello",
        b"-ERR nonsense\r\n",
        b"-LOADING Redis is loading the dataset in memory\r\n",
    ],
)
async def test_a_server_that_is_no_redis_is_refused(connect: Connect, proxy: Proxy, garbage: bytes) -> None:
    proxy.toxics = Toxics(instead=garbage)
    linked = connect(proxy.url, deadline_s=1.0)
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(linked.link.call("GET", "k"), 5)
    assert linked.faults == ["connect"]
    proxy.toxics = Toxics()
    assert await linked.link.call("PING") == b"PONG"


async def call_until_refused(link: RedisLink) -> None:
    while True:
        await link.call("PING")


@pytest.mark.parametrize("garbage", [b"garbage\r\n", b"\x00\r\n", b"$-5\r\n"])
async def test_garbage_in_mid_conversation_drops_the_connection(
    connect: Connect, proxy: Proxy, garbage: bytes
) -> None:
    proxy.toxics = Toxics(appended=garbage)
    linked = connect(proxy.url)
    with pytest.raises(StoreUnavailable):
        await call_until_refused(linked.link)
    proxy.toxics = Toxics()
    reply, epoch = await linked.link.read("PING")
    assert (reply, epoch) == (b"PONG", proxy.connections)


async def test_a_reply_that_nobody_asked_for_drops_the_connection(connect: Connect, proxy: Proxy) -> None:
    proxy.toxics = Toxics(appended=b"+stolen\r\n")
    linked = connect(proxy.url)
    with contextlib.suppress(StoreUnavailable):
        assert await linked.link.call("ECHO", "mine") == b"mine"
    proxy.toxics = Toxics()
    assert await linked.link.call("ECHO", "mine") == b"mine"


async def test_swallowed_replies_are_refused_within_the_deadline(connect: Connect, proxy: Proxy) -> None:
    linked = connect(proxy.url)
    await linked.link.call("PING")
    proxy.toxics.swallow = True
    began = time.perf_counter()
    outcomes = await asyncio.gather(*(linked.link.call("GET", f"{n}") for n in range(50)), return_exceptions=True)
    assert {str(one) for one in outcomes} == {"timeout"}
    assert DEADLINE_S <= time.perf_counter() - began < DEADLINE_S + SLACK_S
    assert linked.faults == ["timeout"]


async def test_connecting_and_asking_share_one_deadline(connect: Connect, proxy: Proxy) -> None:
    proxy.toxics = Toxics(delay_s=0.8)
    linked = connect(proxy.url, deadline_s=1.0)
    link = linked.link
    began = time.perf_counter()
    with pytest.raises(StoreUnavailable, match="timeout"):
        await link.call("PING")
    assert linked.faults == ["timeout"]
    assert 1.0 <= time.perf_counter() - began < 1.5
    proxy.toxics.delay_s = 0.0
    assert await link.call("ECHO", "next") == b"next"
    assert proxy.connections == 1


async def test_a_reply_that_waits_behind_a_busy_loop_is_not_late(connect: Connect) -> None:
    link = connect().link
    await link.call("PING")
    asking = asyncio.create_task(link.call("ECHO", "here"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    time.sleep(DEADLINE_S * 1.5)  # noqa: ASYNC251  (the busy loop)
    assert await asking == b"here"


async def test_what_is_outstanding_is_bounded(connect: Connect, redis_server: RedisServer) -> None:
    link = connect(deadline_s=5.0).link
    await link.call("PING")
    posted = [link.post("ECHO", f"{number}") for number in range(20_000)]
    with pytest.raises(StoreUnavailable, match="too many"):
        link.post("ECHO", "one more")
    with pytest.raises(StoreUnavailable, match="too many"):
        await link.call("ECHO", "one more")
    assert await asyncio.gather(*(one for one in posted if one is not None)) == [b"%d" % n for n in range(20_000)]
    assert await link.call("ECHO", "again") == b"again"


async def test_bytes_of_any_kind_and_size_pass(connect: Connect) -> None:
    link = connect(deadline_s=5.0).link
    for value in (b"", b"\r\n", bytes(range(256)), b"x" * (3 << 20), "ß\u0000😀".encode()):
        await link.call("SET", b"key\r\n\x00", value)
        assert await link.call("GET", b"key\r\n\x00") == value


async def test_a_command_that_cannot_be_written_harms_nobody_else(connect: Connect) -> None:
    link = connect().link
    await link.call("PING")
    other = asyncio.create_task(link.call("ECHO", "other"))
    with pytest.raises(UnicodeEncodeError):
        await link.call("ECHO", "\ud800")
    assert await other == b"other"
    assert await link.read("ECHO", "next") == (b"next", 1)


async def test_a_lost_connection_is_told_once(connect: Connect) -> None:
    told: list[str] = []
    connection = Connection(DEADLINE_S, told.append)
    connection.alive = True
    connection.fail("first")
    connection.fail("second")
    connection.connection_lost(None)
    assert told == ["first"]
