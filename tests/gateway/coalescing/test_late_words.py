"""Who asks for a call that is over hears of that call alone, whatever its flight does next."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from gateway.coalescing.frames import Cipher, Frame
from gateway.coalescing.leading import Leading, Outlets
from gateway.coalescing.leases import Lease
from gateway.errors import UpstreamError
from tests.gateway.coalescing.test_leases_in_redis import NAME, TERMS, Worker
from tests.gateway.coalescing.test_takes import Air
from tests.servers.redis import RedisServer


class Led:
    """A flight, and the calls that it leads one after another."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.air = Air()
        self.sent: list[bytes] = []

    async def leads(self) -> tuple[Leading, Cipher]:
        lease = await self.worker.join()
        assert isinstance(lease, Lease)
        cipher = Cipher(b"s" * 40, NAME.tenant_id, NAME.lease_key, lease.token)
        outlets = Outlets(1 << 20, lambda _inbox, message: self.sent.append(message), self.worker.faults.append)
        return Leading(lease, cipher, self.air.flight, TERMS, outlets), cipher

    def heard(self, cipher: Cipher) -> list[Frame]:
        return [cipher.open(message[33:]) for message in self.sent]


@pytest_asyncio.fixture
async def led(redis_server: RedisServer) -> AsyncIterator[Led]:
    worker = Worker(redis_server.url)
    await worker.up()
    made = Led(worker)
    yield made
    made.air.land()
    await worker.close()


def said(frames: list[Frame]) -> list[Any]:
    return [part["choices"][0]["delta"]["content"] for frame in frames for part in frame.chunks]


async def test_a_late_want_hears_how_the_first_call_ended_and_nothing_of_the_second(led: Led) -> None:
    first, cipher = await led.leads()
    first.failed(UpstreamError("connect", 502, {}), 1)
    second, _ = await led.leads()
    led.air.say("abc", 2)
    first.seat("inbox", 0)
    frames = led.heard(cipher)
    assert said(frames) == []
    assert all(frame.begun is None for frame in frames)
    assert frames[-1].failed is not None
    second.gone()


async def test_a_late_leave_takes_nothing_from_those_who_follow_the_second(led: Led) -> None:
    first, _ = await led.leads()
    first.failed(UpstreamError("connect", 502, {}), 1)
    second, _ = await led.leads()
    second.seat("inbox", 0)
    first.unseat("another")
    assert led.air.flight.watch is not None
    second.gone()
    assert led.air.flight.watch is None
