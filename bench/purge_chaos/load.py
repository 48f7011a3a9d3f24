"""Clients that check every answer, and the one who purges; both go on whatever breaks."""

import asyncio
import collections
import contextlib
import random
import re
import time
from dataclasses import dataclass, field

import aiohttp
import orjson

from bench.purge_chaos.kinds import KINDS, QUESTIONS, Order, ordered, planned, registered
from bench.purge_chaos.stand import ADMIN, KEY
from bench.purge_chaos.truth import Truth
from bench.purge_chaos.upstream import VersionedUpstream

_DEADLINE_S = 20.0
_AFTER_FAILURE_S = 0.05
_BETWEEN_PURGES_S = 0.1
_SETTLED_S = 0.25
_OK = 200
_MOST_TRIES = 5000
_LEAST_PURGES = 2 * len(KINDS)
_TOLERANT = 0.2
_VERSION = re.compile(rb"version (\d+)")


@dataclass(slots=True)
class Tally:
    """What was seen.

    Attributes:
        answers: by source, as X-Lamina-Cache says.
        failures: requests that were not answered, by status or error; they break no promise.
        purges: that returned.
        refused: tries of purges that were not confirmed, by status or error.
        purge_ms: of those that returned.
    """

    answers: collections.Counter[str] = field(default_factory=collections.Counter)
    failures: collections.Counter[str] = field(default_factory=collections.Counter)
    purges: int = 0
    refused: collections.Counter[str] = field(default_factory=collections.Counter)
    purge_ms: list[float] = field(default_factory=list)

    @property
    def requests(self) -> int:
        """Answers so far."""
        return sum(self.answers.values())


class Load:
    """Asks and purges at both replicas.

    Args:
        ports: of the replicas.
        upstream: whose version is raised before each purge.
        requests: answers wanted; the load goes on until each kind of purge returned hard and soft too.
        seed: of all draws.
    """

    def __init__(self, ports: list[int], upstream: VersionedUpstream, requests: int, seed: int) -> None:
        self.tally = Tally()
        self.truth = Truth()
        self._ports = ports
        self._upstream = upstream
        self._requests = requests
        self._seed = seed
        self._purging: asyncio.Task[None] | None = None
        self._ids: dict[int, str] = {}
        self._open: set[object] = set()

    @property
    def done(self) -> bool:
        """Whether enough was answered, with enough purges in between to say something, or purging has failed."""
        if self._purging is not None and self._purging.done():
            return True
        return self.tally.requests >= self._requests and self.tally.purges >= _LEAST_PURGES

    async def run(self, clients: int) -> None:
        """Returns when enough was answered.

        Raises:
            RuntimeError: no purge was confirmed any more.
        """
        timeout = aiohttp.ClientTimeout(total=_DEADLINE_S)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            purging = self._purging = asyncio.create_task(self._purge(session, random.Random(self._seed)))
            draws = [random.Random(self._seed + 1 + number) for number in range(clients)]
            await asyncio.gather(*(self._ask(session, draw) for draw in draws))
            purging.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await purging

    async def _ask(self, session: aiohttp.ClientSession, draw: random.Random) -> None:
        while not self.done:
            ticket = object()
            self._open.add(ticket)
            try:
                why = await self._asked(session, draw)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                why = type(error).__name__
            finally:
                self._open.discard(ticket)
            if why is not None:
                self.tally.failures[why] += 1
                await asyncio.sleep(_AFTER_FAILURE_S)

    async def _asked(self, session: aiohttp.ClientSession, draw: random.Random) -> str | None:
        """Asks once; returns why there was no answer."""
        port, question = draw.choice(self._ports), draw.choice(QUESTIONS)
        body = question.body(alias=draw.random() < 0.5, stream=draw.random() < 0.3)
        sent = self.truth.sent(question, tolerant=draw.random() < _TOLERANT)
        headers = {"authorization": f"Bearer {KEY}", **question.headers}
        if sent.tolerant:
            headers["cache-control"] = "max-stale"
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        async with session.post(url, data=orjson.dumps(body), headers=headers) as reply:
            told, source = await reply.read(), reply.headers.get("x-lamina-cache", "none")
        found = _VERSION.search(told)
        if reply.status != _OK or found is None:
            return str(reply.status)
        self.tally.answers[source] += 1
        self._ids[question.number] = reply.headers.get("x-lamina-cache-id", "")
        self.truth.answered(sent, int(found[1]), source, port)
        return None

    async def _purge(self, session: aiohttp.ClientSession, draw: random.Random) -> None:
        await self._until_purged(session, draw, registered())
        while True:
            kind, mode = planned(self.tally.purges)
            self._upstream.version += 1
            raised = self._upstream.version
            if kind.by_clock:
                await self._settled(raised)
            order = ordered(kind, mode, raised, self._entry(draw), time.time())
            begun = time.perf_counter()
            await self._until_purged(session, draw, order)
            self.truth.returned(order, raised)
            self.tally.purges += 1
            self.tally.purge_ms.append(1000 * (time.perf_counter() - begun))
            await asyncio.sleep(_BETWEEN_PURGES_S)

    def _entry(self, draw: random.Random) -> tuple[int, str] | None:
        """One whose answer may be served, if there is any."""
        known = [one for one in self._ids.items() if self.truth.servable(one[0])] or list(self._ids.items())
        return draw.choice(sorted(known)) if known else None

    async def _settled(self, raised: int) -> None:
        """Returns once every answer of a version below this is whole, in every worker."""
        before = set(self._open)
        while before & self._open or self._upstream.computes_below(raised):  # noqa: ASYNC110  (rare)
            await asyncio.sleep(_AFTER_FAILURE_S)
        await asyncio.sleep(_SETTLED_S)  # refreshes behind an answer have nobody who waits for them

    async def _until_purged(self, session: aiohttp.ClientSession, draw: random.Random, order: Order) -> None:
        """Tries either replica until one says that all know."""
        for _ in range(_MOST_TRIES):
            if await self._purged(session, draw.choice(self._ports), order):
                return
            await asyncio.sleep(_AFTER_FAILURE_S)
        raise RuntimeError("no purge was confirmed any more")

    async def _purged(self, session: aiohttp.ClientSession, port: int, order: Order) -> bool:
        headers = {"authorization": f"Bearer {ADMIN}", "content-type": "application/json"}
        data = None if order.body is None else orjson.dumps(order.body)
        try:
            url = f"http://127.0.0.1:{port}{order.path}"
            async with session.request(order.method, url, data=data, headers=headers) as reply:
                told, status = await reply.read(), reply.status
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self.tally.refused[type(error).__name__] += 1
            return False
        if status == _OK and orjson.loads(told).get("announced", True):
            return True
        self.tally.refused[str(status)] += 1
        return False
