"""The scripts against a real Redis: one leader, fencing, what followers are told, and replies that are lies."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.coalescing.frames import Cipher, Frame, FrameError
from gateway.coalescing.leases import Found, HeldBy, Lease, Leases, new_token
from gateway.errors import StoreUnavailable
from gateway.flights import FlightName
from gateway.redis_link import Inbox, RedisLink, RedisTarget
from policies.leases import Terms
from tests.servers.redis import RedisServer

NAME = FlightName("t1", "ab" * 32, 7)
TERMS = Terms(0.5)
ENTRY = b"LM1" + bytes(range(100))


class Worker:
    """One worker's leases and inbox."""

    def __init__(self, url: str) -> None:
        self.faults: list[str] = []
        self.heard: list[bytes] = []
        target = RedisTarget.parse(url)
        self.link = RedisLink(target, deadline_s=1.0, failures=5, retry_s=0.2, on_fault=self.faults.append)
        self.leases = Leases(self.link, "lamina:inbox:", new_token(), TERMS, deadline_s=0.3)
        channel = self.leases.channel(self.leases.inbox)
        self.inbox = Inbox(target, channel, 1.0, 0.1, self.heard.append, self.faults.append)
        self.task = asyncio.create_task(self.inbox.run())

    async def up(self) -> None:
        async with asyncio.timeout(5):
            while not self.inbox.listening:  # noqa: ASYNC110  (nothing waits for that in the product)
                await asyncio.sleep(0.01)

    async def join(self, seen: bytes = b"", have: int = 0) -> Lease | HeldBy | Found:
        return await self.leases.join(NAME, new_token(), seen, have)

    async def hears(self, start: bytes) -> bytes:
        async with asyncio.timeout(5):
            while not any(one.startswith(start) for one in self.heard):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return next(one for one in self.heard if one.startswith(start))

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.link.close()


@pytest_asyncio.fixture
async def two(redis_server: RedisServer) -> AsyncIterator[tuple[Worker, Worker]]:
    """Two workers that listen."""
    workers = Worker(redis_server.url), Worker(redis_server.url)
    for worker in workers:
        await worker.up()
    yield workers
    for worker in workers:
        await worker.close()


async def leads(worker: Worker) -> Lease:
    place = await worker.join()
    assert isinstance(place, Lease)
    return place


async def test_one_leads_and_is_told_who_follows(two: tuple[Worker, Worker]) -> None:
    one, other = two
    lease = await leads(one)
    place = await other.join(have=3)
    assert isinstance(place, HeldBy)
    assert (place.token, place.inbox) == (lease.token, one.leases.channel(one.leases.inbox))
    assert 0 < place.left_s <= TERMS.lease_s
    wanted = await one.hears(b"W")
    assert wanted == b"W" + lease.token.encode() + other.leases.inbox.encode() + (3).to_bytes(8, "big")


async def test_a_lease_that_lapsed_can_neither_relay_nor_write(
    two: tuple[Worker, Worker], redis_server: RedisServer
) -> None:
    one, other = two
    lease = await leads(one)
    await asyncio.sleep(TERMS.lease_s + 0.1)
    assert not lease.held
    newer = await leads(other)
    lease.tell([other.leases.channel(other.leases.inbox)], b"F too late")
    reply = lease.write("t1", NAME.digest_hex, ENTRY, 60)
    assert reply is not None
    assert await reply == 0
    lease.let_go()
    assert b"$-1" in redis_server.command("GET", f"lamina:{{t1}}:e:{NAME.digest_hex}")
    newer.tell([other.leases.channel(other.leases.inbox)], b"F in time")
    assert await other.hears(b"F") == b"F in time"
    assert newer.held


async def test_beats_keep_a_lease(two: tuple[Worker, Worker]) -> None:
    one, other = two
    lease = await leads(one)
    for _ in range(5):
        await asyncio.sleep(TERMS.beat_s)
        lease.tell()
    assert isinstance(await other.join(), HeldBy)
    assert lease.held


async def test_what_was_stored_meanwhile_is_found_unless_it_was_seen(two: tuple[Worker, Worker]) -> None:
    one, other = two
    lease = await leads(one)
    reply = lease.write("t1", NAME.digest_hex, ENTRY, 60)
    lease.let_go()
    assert reply is not None
    assert await reply == 1
    assert await other.join() == Found(ENTRY)
    assert isinstance(await other.join(seen=ENTRY[:64]), Lease)


async def test_a_join_that_is_late_leaves_no_lease_behind(redis_server: RedisServer) -> None:
    worker = Worker(redis_server.url)
    try:
        await worker.up()
        await worker.link.call("PING")
        redis_server.stop()
        with pytest.raises(StoreUnavailable):
            await worker.join()
        redis_server.cont()
        async with asyncio.timeout(2):
            while b"$-1" not in redis_server.command("GET", NAME.lease_key):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        redis_server.cont()
        await worker.close()


@pytest.mark.parametrize(
    "lie", [b"+OK\r\n", b":1\r\n", b"*2\r\n$3\r\nabc\r\n:1\r\n", b"*1\r\n$1\r\nx\r\n", b"$-1\r\n"]
)
async def test_a_lie_is_no_lease(tmp_path: Path, lie: bytes) -> None:
    gone = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        replies = [b"+PONG\r\n", lie]
        while replies and await reader.read(1 << 16):
            writer.write(replies.pop(0))
        await reader.read()
        writer.close()
        await writer.wait_closed()
        gone.set()

    server = await asyncio.start_unix_server(answer, str(tmp_path / "liar.sock"))
    target = RedisTarget.parse(f"unix://{tmp_path / 'liar.sock'}")
    link = RedisLink(target, deadline_s=1.0, failures=5, retry_s=0.2, on_fault=lambda _: None)
    try:
        with pytest.raises(StoreUnavailable):
            await Leases(link, "lamina:inbox:", new_token(), TERMS, deadline_s=0.5).join(NAME, new_token(), b"", 0)
    finally:
        await link.close()
        await gone.wait()
        server.close()


async def test_an_inbox_comes_back_when_redis_does(redis_server: RedisServer) -> None:
    worker = Worker(redis_server.url)
    try:
        await worker.up()
        redis_server.restart()
        async with asyncio.timeout(5):
            while worker.inbox.listening or not worker.faults:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await worker.up()
        channel = worker.leases.channel(worker.leases.inbox)
        redis_server.command("PUBLISH", channel, "F again")
        assert await worker.hears(b"F") == b"F again"
    finally:
        await worker.close()


def test_frames_open_for_their_lease_tenant_and_secret_alone() -> None:
    frame = Frame(4, ({"choices": [{"delta": {"content": "x"}}]},))
    sealed = Cipher(b"s" * 40, "t1", NAME.lease_key, "a" * 32).seal(frame)
    assert Cipher(b"s" * 40, "t1", NAME.lease_key, "a" * 32).open(sealed) == frame
    assert b"content" not in sealed
    others = [
        Cipher(b"z" * 40, "t1", NAME.lease_key, "a" * 32),
        Cipher(b"s" * 40, "t2", NAME.lease_key, "a" * 32),
        Cipher(b"s" * 40, "t1", NAME.lease_key + "1", "a" * 32),
        Cipher(b"s" * 40, "t1", NAME.lease_key, "b" * 32),
    ]
    changed = [sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :] for at in range(len(sealed))]
    for cipher in others:
        with pytest.raises(FrameError):
            cipher.open(sealed)
    for one in (*changed, sealed[:20], b""):
        with pytest.raises(FrameError):
            Cipher(b"s" * 40, "t1", NAME.lease_key, "a" * 32).open(one)


def test_a_flight_is_named_by_tenant_digest_and_purge() -> None:
    names = {
        FlightName("t1", "aa", 1),
        FlightName("t2", "aa", 1),
        FlightName("t1", "ab", 1),
        FlightName("t1", "aa", 2),
    }
    assert len({name.lease_key for name in names}) == 4
    assert NAME.lease_key.startswith("lamina:{t1}:f:")
