"""The link: each call answered or refused within its deadline; after failures in a row it refuses at once."""

import asyncio
import math
from collections.abc import Callable
from typing import TypeVar

import aiohttp
import msgspec

from gateway.errors import SemanticUnavailable
from gateway.semantic_link.target import SemanticTarget
from policies.nomination import (
    Ask,
    Candidate,
    Near,
    NearRows,
    Nominated,
    Pairs,
    Settle,
    Settled,
    Texts,
    Vectors,
    Verdicts,
)

T = TypeVar("T")
_OK = 200
_MAX_ANSWER_BYTES = 8 << 20
_PROBE_WITHIN_S = 2.0
_KEEP_ALIVE_S = 30.0
_MAX_CONNECTIONS = 64
_LONGEST_PAUSES = 16


class SemanticLink:
    """Calls to one semantic service.

    While the breaker is open a call costs nothing: it is refused at once, and a background probe asks for the
    service's health until it is well. The first failure after that opens the breaker again, for twice as long: a
    service may say that it is well and still be too slow.

    Args:
        target: where it is.
        failures: so many in a row open the breaker.
        retry_s: time between two probes, at first.
        on_fault: told the reason of each failure.
    """

    def __init__(
        self, target: SemanticTarget, *, failures: int, retry_s: float, on_fault: Callable[[str], None]
    ) -> None:
        self._target = target
        self._allowed = failures
        self._retry_s = retry_s
        self._on_fault = on_fault
        self._failures = 0
        self._pause_s = retry_s
        self._probe: asyncio.Task[None] | None = None
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._encoder = msgspec.msgpack.Encoder()

    @property
    def open(self) -> bool:
        """Whether calls are let through (the breaker is closed)."""
        return self._probe is None and not self._closed

    async def nominate(self, ask: Ask, deadline_s: float) -> Nominated:
        """Stored questions that may have the same answer, best first; at most as many as asked for.

        Raises:
            SemanticUnavailable: no usable answer within the deadline.
        """
        nominated = await self._call("/v1/nominate", ask, Nominated, deadline_s, _sane_nomination)
        return msgspec.structs.replace(nominated, candidates=nominated.candidates[: ask.limit])

    async def verify(self, pairs: Pairs, deadline_s: float) -> Verdicts:
        """Whether texts mean, or say, the same; one verdict per pair.

        Raises:
            SemanticUnavailable: as `nominate`.
        """

        def sane(answer: Verdicts) -> bool:
            verdicts = answer.verdicts
            return len(verdicts) == len(pairs.pairs) and all(0 <= probability <= 1 for _, probability in verdicts)

        return await self._call("/v1/verify", pairs, Verdicts, deadline_s, sane)

    async def near(self, near: Near, deadline_s: float) -> NearRows:
        """Stored rows near a text or a row, nearest first.

        Raises:
            SemanticUnavailable: as `nominate`.
        """
        return await self._call("/v1/near", near, NearRows, deadline_s, lambda _: True)

    async def embed(self, texts: Texts, deadline_s: float) -> Vectors:
        """Vectors of texts.

        Raises:
            SemanticUnavailable: as `nominate`.
        """

        def sane(answer: Vectors) -> bool:
            return len(answer.vectors) == len(texts.texts)

        return await self._call("/v1/embed", texts, Vectors, deadline_s, sane)

    async def settle(self, settle: Settle, deadline_s: float) -> Settled:
        """Makes the service forget what is gone, in memory and on disk.

        Raises:
            SemanticUnavailable: as `nominate`.
        """
        return await self._call("/v1/settle", settle, Settled, deadline_s, lambda _: True)

    async def healthy(self) -> bool:
        """Whether the service says that it has loaded and caught up; opens or closes no breaker."""
        try:
            async with (
                asyncio.timeout(_PROBE_WITHIN_S),
                self._opened().get(f"{self._target.base}/health", headers=self._target.headers()) as response,
            ):
                return response.status == _OK
        except (aiohttp.ClientError, OSError, TimeoutError, SemanticUnavailable):
            return False

    async def close(self) -> None:
        """Closes the connections and stops probing; later calls are refused."""
        self._closed = True
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.gather(self._probe, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def _call(
        self, path: str, asked: msgspec.Struct, kind: type[T], deadline_s: float, sane: Callable[[T], bool]
    ) -> T:
        if not self.open:
            raise SemanticUnavailable("down")
        body = self._encoder.encode(asked)
        try:
            async with asyncio.timeout(deadline_s):
                status, raw = await self._twice(path, body)
        except TimeoutError:
            raise self._failed("timeout") from None
        except (aiohttp.ClientError, OSError):
            raise self._failed("down") from None
        if status != _OK:
            raise self._failed("status")
        try:
            answer = msgspec.msgpack.decode(raw, type=kind)
        except (msgspec.MsgspecError, RecursionError):
            raise self._failed("garbled") from None
        if not sane(answer):
            raise self._failed("garbled")
        self._failures = 0
        self._pause_s = self._retry_s
        return answer

    async def _twice(self, path: str, body: bytes) -> tuple[int, bytes]:
        """A kept connection that the service had closed meanwhile costs one more try."""
        try:
            return await self._post(path, body)
        except (aiohttp.ServerDisconnectedError, ConnectionResetError, BrokenPipeError):
            return await self._post(path, body)

    async def _post(self, path: str, body: bytes) -> tuple[int, bytes]:
        url = self._target.base + path
        session = self._opened()
        async with session.post(url, data=body, headers=self._target.headers(), allow_redirects=False) as response:
            parts: list[bytes] = []
            left_bytes = _MAX_ANSWER_BYTES
            while part := await response.content.readany():
                parts.append(part)
                left_bytes -= len(part)
                if left_bytes < 0:
                    response.close()
                    return _OK, b""
            return response.status, b"".join(parts)

    def _opened(self) -> aiohttp.ClientSession:
        if self._closed:
            raise SemanticUnavailable("down")
        if self._session is None:
            self._session = _new_session(self._target)
        return self._session

    def _failed(self, reason: str) -> SemanticUnavailable:
        self._failures += 1
        self._on_fault(reason)
        if self._failures >= self._allowed and self._probe is None and not self._closed:
            self._probe = asyncio.create_task(self._probe_until_back(), name="semantic-probe")
        return SemanticUnavailable(reason)  # type: ignore[arg-type]

    async def _probe_until_back(self) -> None:
        try:
            while not self._closed:
                await asyncio.sleep(self._pause_s)
                if await self.healthy():
                    break
        finally:
            self._failures = self._allowed - 1
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSES * self._retry_s)
            self._probe = None


def _sane_nomination(nominated: Nominated) -> bool:
    rows = {candidate.row for candidate in nominated.candidates}
    return len(rows) == len(nominated.candidates) and all(map(_sane, nominated.candidates))


def _sane(candidate: Candidate) -> bool:
    probability = candidate.probability
    judged = probability is None or 0 <= probability <= 1
    return candidate.row > 0 and math.isfinite(candidate.similarity) and judged


def _new_session(target: SemanticTarget) -> aiohttp.ClientSession:
    connector: aiohttp.BaseConnector
    if target.path is not None:
        connector = aiohttp.UnixConnector(target.path, limit=_MAX_CONNECTIONS, keepalive_timeout=_KEEP_ALIVE_S)
    else:
        connector = aiohttp.TCPConnector(limit=_MAX_CONNECTIONS, keepalive_timeout=_KEEP_ALIVE_S, ttl_dns_cache=60)
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        trust_env=False,
    )
