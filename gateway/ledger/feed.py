"""The latest requests of all workers, for people who watch; written to Redis behind the answers, without any text.

It may lose lines: when Redis is away, or when more come than anybody could read. Both are counted.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from gateway.errors import StoreUnavailable
from gateway.ledger.book import spent_and_saved
from gateway.ledger.lines import FeedLine
from gateway.redis_link import RedisLink
from gateway.telemetry.metrics import Metrics
from policies.ledger import usd

FEED_KEY = "lamina:feed"
MOST_LINES = 1_000
"""Lines that are kept, over all workers."""

WRITE_S = 0.5
_MOST_WAITING = 250
_KEEP_S = 86_400
_MOST_CHARS = 200


class Feed:
    """Takes lines at once and writes them twice a second, the newest of them when there are too many.

    Args:
        link: the way to Redis.
    """

    def __init__(self, link: RedisLink, metrics: Metrics) -> None:
        self._link = link
        self._metrics = metrics
        self._waiting: deque[FeedLine] = deque(maxlen=_MOST_WAITING)
        self._came = 0
        self._encode = msgspec.json.Encoder().encode

    def add(self, line: FeedLine) -> None:
        """Queues a line; the oldest one gives way when there are too many."""
        self._waiting.append(line)
        self._came += 1

    async def run(self) -> None:
        """Writes for ever."""
        while True:
            await asyncio.sleep(WRITE_S)
            try:
                await self.write()
            except Exception as error:  # noqa: BLE001  (recorded; without this, nothing would be shown again)
                self._metrics.fault("feed", type(error).__name__)

    async def write(self) -> None:
        """Writes what waits; lines that cannot be written are lost."""
        lines, came = list(self._waiting), self._came
        if not lines:
            return
        self._waiting.clear()
        self._came = 0
        self._metrics.feed("skipped", came - len(lines))
        try:
            await self._link.call("RPUSH", FEED_KEY, *[self._encode(shown(line)) for line in lines])
            await self._link.call("LTRIM", FEED_KEY, -MOST_LINES, -1)
            await self._link.call("EXPIRE", FEED_KEY, _KEEP_S)
        except StoreUnavailable:
            self._metrics.feed("lost", len(lines))
        else:
            self._metrics.feed("written", len(lines))

    async def latest(self, wanted: Callable[[dict[str, Any]], bool], limit: int) -> list[dict[str, Any]]:
        """The newest lines that are wanted, newest first.

        Raises:
            StoreUnavailable: Redis does not say.
        """
        raw = await self._link.call("LRANGE", FEED_KEY, -MOST_LINES, -1)
        found: dict[str, dict[str, Any]] = {}
        for value in raw if isinstance(raw, list) else []:
            line = _decoded(value)
            if line is not None and wanted(line):
                found[line["request_id"]] = line
        return sorted(found.values(), key=lambda line: line["at"], reverse=True)[:limit]


def shown(line: FeedLine) -> dict[str, Any]:
    """A line as it is stored and shown."""
    answered, parts = line.answered, line.split
    money = spent_and_saved(line)
    ttft_s = answered.ttft_s
    return {
        "at": line.at_s,
        "request_id": answered.request_id,
        "tenant_id": answered.tenant_id,
        "surface": answered.surface,
        "route": answered.route[:_MOST_CHARS],
        "provider": answered.provider,
        "model": answered.model[:_MOST_CHARS],
        "layer": line.layer,
        "cache": answered.cache,
        "reason": answered.reason[:_MOST_CHARS],
        "status": answered.status,
        "stream": answered.stream,
        "prompt_tokens": 0 if parts is None else parts.prompt,
        "cached_tokens": 0 if parts is None else parts.cached,
        "completion_tokens": 0 if parts is None else parts.output,
        "ms": round(answered.latency_s * 1000, 3),
        "ttft_ms": None if ttft_s is None else round(ttft_s * 1000, 3),
        "cost_usd": None if money is None else usd(money[0]),
        "saved_usd": None if money is None else usd(money[1]),
    }


def _decoded(value: object) -> dict[str, Any] | None:
    """A stored line; None for what another version, or nobody of ours, wrote."""
    try:
        line = msgspec.json.decode(value) if isinstance(value, bytes) else None
    except msgspec.DecodeError:
        return None
    return line if isinstance(line, dict) and {"at", "request_id", "tenant_id"} <= line.keys() else None
