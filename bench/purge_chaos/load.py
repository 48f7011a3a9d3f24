"""Clients that check every answer, and the one who purges; both go on whatever breaks."""

import asyncio
import collections
import contextlib
import random
import re
import time
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from bench.purge_chaos.stand import ADMIN, KEY
from bench.purge_chaos.upstream import VersionedUpstream

_QUESTIONS = 20
_DEADLINE_S = 20.0
_AFTER_FAILURE_S = 0.05
_BETWEEN_PURGES_S = 0.1
_OK = 200
_MOST_TRIES = 5000
_LEAST_PURGES = 20
_VERSION = re.compile(rb"version (\d+)")
_HEADERS = {
    "authorization": f"Bearer {KEY}",
    "x-lamina-cache-groups": "docs",
    "x-lamina-user": "ann",
    "x-lamina-session": "s1",
    "x-lamina-versions": "kb=3",
}
KINDS = (
    *(("tenant", ""), ("tag", "docs"), ("user", "ann"), ("session", "s1"), ("model", "m"), ("route", "m")),
    *(("version", "kb=3"), ("version", "kb=*"), ("version", "kb<4")),
)
"""Each of them takes every entry of the load."""


@dataclass(slots=True)
class Tally:
    """What was seen.

    Attributes:
        confirmed: the lowest version that an answer to a request from now on may carry.
        stale: (version answered, lowest allowed, port, source) of each answer that should not have been.
        answers: by source, as X-Lamina-Cache says.
        failures: requests that were not answered, by status or error; they break no promise.
        purges: that returned.
        refused: tries of purges that were not confirmed, by status or error.
        purge_ms: of those that returned.
    """

    confirmed: int = 0
    stale: list[tuple[int, int, int, str]] = field(default_factory=list)
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
        requests: answers wanted; the load goes on until 20 purges returned too.
        seed: of all draws.
    """

    def __init__(self, ports: list[int], upstream: VersionedUpstream, requests: int, seed: int) -> None:
        self.tally = Tally()
        self._ports = ports
        self._upstream = upstream
        self._requests = requests
        self._seed = seed
        self._purging: asyncio.Task[None] | None = None

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
            port = draw.choice(self._ports)
            question = f"question {draw.randrange(_QUESTIONS)}"
            body = {
                "model": "m",
                "messages": [{"role": "user", "content": question}],
                "stream": draw.random() < 0.3,
            }
            lowest = self.tally.confirmed
            try:
                url = f"http://127.0.0.1:{port}/v1/chat/completions"
                async with session.post(url, data=orjson.dumps(body), headers=_HEADERS) as reply:
                    told, source = await reply.read(), reply.headers.get("x-lamina-cache", "none")
                    status = reply.status
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                await self._failed(type(error).__name__)
                continue
            found = _VERSION.search(told)
            if status != _OK or found is None:
                await self._failed(str(status))
                continue
            self.tally.answers[source] += 1
            if int(found[1]) < lowest:
                self.tally.stale.append((int(found[1]), lowest, port, source))

    async def _failed(self, why: str) -> None:
        self.tally.failures[why] += 1
        await asyncio.sleep(_AFTER_FAILURE_S)

    async def _purge(self, session: aiohttp.ClientSession, draw: random.Random) -> None:
        number = 0
        while True:
            kind, value = KINDS[number % len(KINDS)]
            number += 1
            self._upstream.version += 1
            raised = self._upstream.version
            begun = time.perf_counter()
            await self._until_purged(session, draw, kind, value)
            self.tally.confirmed = raised
            self.tally.purges += 1
            self.tally.purge_ms.append(1000 * (time.perf_counter() - begun))
            await asyncio.sleep(_BETWEEN_PURGES_S)

    async def _until_purged(
        self, session: aiohttp.ClientSession, draw: random.Random, kind: str, value: str
    ) -> None:
        """Tries either replica until one says that all know."""
        for _ in range(_MOST_TRIES):
            if await self._purged(session, draw.choice(self._ports), kind, value):
                return
            await asyncio.sleep(_AFTER_FAILURE_S)
        raise RuntimeError("no purge was confirmed any more")

    async def _purged(self, session: aiohttp.ClientSession, port: int, kind: str, value: str) -> bool:
        body: dict[str, Any] = {"tenant": "default", "kind": kind, "value": value, "reason": "chaos"}
        headers = {"authorization": f"Bearer {ADMIN}", "content-type": "application/json"}
        try:
            url = f"http://127.0.0.1:{port}/admin/v1/purges"
            async with session.post(url, data=orjson.dumps(body), headers=headers) as reply:
                await reply.read()
                status = reply.status
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self.tally.refused[type(error).__name__] += 1
            return False
        if status != _OK:
            self.tally.refused[str(status)] += 1
        return status == _OK
