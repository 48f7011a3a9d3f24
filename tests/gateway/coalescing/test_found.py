"""An answer that was stored while a worker followed: who may have it, and what becomes of half a stream."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from gateway.coalescing.frames import Begun, Cipher, Frame
from gateway.coalescing.leading import FRAME
from gateway.coalescing.leases import Lease
from gateway.flights import FlightName
from gateway.layers.entry import Entry, Sealer
from gateway.layers.exact import entry_key
from tests.gateway.coalescing.conftest import Pair
from tests.gateway.coalescing.test_leases_in_redis import Worker
from tests.gateway.http.wire import Reply, ask, chat_request, control, line, said
from tests.upstream import Script

SECRET = b"s" * 40
BEGUN = Begun("up", "m", "m", {})


def chunk(text: str) -> dict[str, Any]:
    delta = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [delta]}


def text_of(reply: Reply) -> str:
    return "".join(event["choices"][0]["delta"].get("content") or "" for event in reply.events[:-1])


class Elsewhere:
    """A worker by hand that leads the call which both gateways are about to be asked for."""

    def __init__(self, worker: Worker, lease: Lease, name: FlightName, old: Entry) -> None:
        self.worker = worker
        self.lease = lease
        self.name = name
        self.old = old

    async def says(self, *texts: str) -> None:
        """Relays chunks to the first who follows."""
        wanted = await self.worker.hears(b"W")
        cipher = Cipher(SECRET, self.name.tenant_id, self.name.lease_key, self.lease.token)
        sealed = cipher.seal(Frame(0, tuple(map(chunk, texts)), BEGUN))
        inbox = self.worker.leases.channel(wanted[33:65].decode())
        self.lease.tell([inbox], FRAME + self.lease.token.encode() + sealed)

    async def stores(self, *, age_s: float = 0.0, source: bytes = b"") -> None:
        """Stores the answer and leads no more; no word of that arrives."""
        index, message, *rest = self.old.choices[0]
        answered = (index, {**message, "content": "one two three"}, *rest)
        made = {"as_of": self.name.purge_seq, "created_s": time.time() - age_s, "source": source, "boot": b""}
        entry = msgspec.structs.replace(self.old, choices=(answered,), **made)
        reply = self.lease.write(self.name.tenant_id, self.name.digest_hex, Sealer(SECRET).seal(entry), 60)
        self.lease.let_go()
        assert reply is not None
        assert await reply == 1


@pytest_asyncio.fixture
async def elsewhere(pair: Pair) -> AsyncIterator[Elsewhere]:
    """It leads the call for `q`, whose older answer is purged."""
    digest_hex = (await ask(pair.two, said("q")))["x-lamina-cache-id"]
    tenant_id = await pair.two.tenant_id()
    name = FlightName(tenant_id, digest_hex, await pair.two.purge())
    worker = Worker(pair.redis.url)
    await worker.up()
    stored = await worker.link.call("GET", entry_key(tenant_id, digest_hex))
    lease = await worker.leases.join(name, "a" * 32, stored[:64], 0)
    assert isinstance(lease, Lease)
    pair.upstream.default = Script(pieces=("fresh",))
    yield Elsewhere(worker, lease, name, Sealer(SECRET).open(stored, tenant_id, bytes.fromhex(digest_hex)))
    await worker.close()


async def test_half_a_stream_is_cut_and_never_taken_for_the_whole(pair: Pair, elsewhere: Elsewhere) -> None:
    async with line(pair.two) as streamed:
        await streamed.send(chat_request(said("q", stream=True)))
        await elsewhere.says("one ", "two")
        head = await streamed.head()
        parts = streamed.parts()
        begun = await anext(parts)
        whole = asyncio.create_task(ask(pair.two, said("q")))
        await pair.counts("lamina_flights_total", 1, role="join")
        await elsewhere.stores()
        cut = Reply(head.status, head.pairs, b"".join([begun, *[part async for part in parts]]))
    assert cut.events[-1]["error"]["code"] == "upstream_cut"
    assert (await whole).text == "one two three"
    assert await pair.counted("lamina_flights_total", role="found") == 1
    assert pair.upstream.count == 1


async def test_a_stream_that_has_had_nothing_gets_all_of_it(pair: Pair, elsewhere: Elsewhere) -> None:
    streamed = asyncio.create_task(ask(pair.two, said("q", stream=True)))
    await elsewhere.says()
    await asyncio.sleep(0.1)
    await elsewhere.stores()
    reply = await streamed
    assert (text_of(reply), reply.events[-1]) == ("one two three", "[DONE]")
    assert pair.upstream.count == 1


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ({"age_s": 5.0}, ""),
        ({"age_s": -5.0}, ""),
        ({"source": b"r" * 32}, ""),
        ({}, "min-fresh=86400"),
    ],
    ids=["old", "from the future", "a copy", "fresher wanted"],
)
async def test_what_is_not_as_good_as_a_call_is_not_taken(
    pair: Pair, elsewhere: Elsewhere, stored: dict[str, Any], asked: str
) -> None:
    waiting = asyncio.create_task(ask(pair.two, said("q"), *([control(asked)] if asked else [])))
    await elsewhere.worker.hears(b"W")
    await elsewhere.stores(**stored)
    assert (await waiting).text == "fresh"
    assert await pair.counted("lamina_flights_total", role="found") == 0


async def test_a_refresh_that_another_worker_makes_is_not_relayed(pair: Pair) -> None:
    digest_hex = (await ask(pair.two, said("q")))["x-lamina-cache-id"]
    name = FlightName(await pair.two.tenant_id(), digest_hex, await pair.two.purge(mode="soft"), "r")
    worker = Worker(pair.redis.url)
    await worker.up()
    stored = await worker.link.call("GET", entry_key(name.tenant_id, digest_hex))
    assert isinstance(await worker.leases.join(name, "a" * 32, stored[:64], 0), Lease)
    assert (await ask(pair.two, said("q"), control("max-stale=60")))["x-lamina-cache"] == "STALE"
    wanted, left = await worker.hears(b"W"), await worker.hears(b"L")
    assert wanted[1:65] == left[1:65]
    await worker.close()
