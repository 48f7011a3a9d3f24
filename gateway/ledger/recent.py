"""Figures of the last hour by minute, and of the last day by quarter of an hour, over all workers, in Redis.

Each worker writes its own tallies whole, so that a write that is sent twice counts once; what was counted while
Redis is away is written when it is back, as far as it is still kept. The ledger is exact; this is for curves.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable

import msgspec

from gateway.errors import StoreUnavailable
from gateway.ledger.book import spent_and_saved
from gateway.ledger.lines import FeedLine
from gateway.redis_link import RedisLink
from policies.ledger import SAVING
from policies.series import Tally, bucket_of, merged, slots

WRITE_S = 2.0
MINUTE_S, QUARTER_S = 60, 900
KEPT = {MINUTE_S: 60, QUARTER_S: 96}
"""How many slots of each length are kept."""

_KEY = "lamina:recent"
_MOST_NAMES = 1_000
_OTHERS = "-"
_FIRST_ERROR = 400
_SEPARATOR = "/"
_MINUTES = QUARTER_S // MINUTE_S


class Recent:
    """This worker's tallies of the minutes under way, and the way to those of all workers.

    Args:
        link: the way to Redis.
        now_s: seconds since the epoch.
    """

    def __init__(self, link: RedisLink, now_s: Callable[[], float]) -> None:
        self._link = link
        self._now_s = now_s
        self._worker = secrets.token_hex(8)
        self._minutes: dict[int, dict[str, Tally]] = {}
        self._changed: set[int] = set()
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder(dict[str, Tally]).decode

    def add(self, line: FeedLine) -> None:
        """Counts a request."""
        minute, answered, parts = int(line.at_s // MINUTE_S), line.answered, line.split
        tally = self._tally(minute, answered.tenant_id, line.layer)
        tally.requests += 1
        tally.errors += answered.status >= _FIRST_ERROR
        tally.latency_us += int(answered.latency_s * 1_000_000)
        bucket = bucket_of(answered.latency_s * 1000)
        tally.buckets[bucket] = tally.buckets.get(bucket, 0) + 1
        self._changed.add(minute)
        if parts is None:
            return
        tally.prompt_tokens += parts.prompt
        tally.completion_tokens += parts.output
        tally.saved_tokens += parts.prompt + parts.output if line.layer in SAVING else parts.cached
        money = spent_and_saved(line)
        if money is not None:
            tally.cost_pico += money[0]
            tally.saved_pico += money[1]

    async def run(self) -> None:
        """Writes for ever."""
        while True:
            await asyncio.sleep(WRITE_S)
            await self.write()

    async def write(self) -> None:
        """Writes the slots that changed; those that cannot be written wait."""
        self._forget()
        changed, self._changed = self._changed & self._minutes.keys(), set()
        try:
            for minute in sorted(changed):
                await self._put(MINUTE_S, minute, self._minutes[minute])
            for quarter in sorted({minute // _MINUTES for minute in changed}):
                first = quarter * _MINUTES
                own = (self._minutes.get(minute, {}) for minute in range(first, first + _MINUTES))
                await self._put(QUARTER_S, quarter, merged(own))
        except StoreUnavailable:
            self._changed |= changed

    async def read(self, step_s: int, wanted: Callable[[str], bool]) -> list[tuple[int, dict[str, Tally]]]:
        """Tallies by layer for each kept slot of a length, oldest first: (start in seconds, by layer).

        Args:
            step_s: MINUTE_S or QUARTER_S.
            wanted: whether a tenant's figures count, by its id.

        Raises:
            StoreUnavailable: Redis does not say.
        """
        numbers = slots(self._now_s(), step_s, KEPT[step_s])
        raw = await asyncio.gather(*[self._link.call("HVALS", _name(step_s, number)) for number in numbers])
        return [
            (number * step_s, merged(self._by_layer(values, wanted)))
            for number, values in zip(numbers, raw, strict=True)
        ]

    def _by_layer(self, values: object, wanted: Callable[[str], bool]) -> Iterable[dict[str, Tally]]:
        for value in values if isinstance(values, list) else []:
            try:
                found = self._decode(value if isinstance(value, bytes) else b"")
            except (msgspec.DecodeError, msgspec.ValidationError):  # of another version, or nobody's
                continue
            for name, tally in found.items():
                tenant, _, layer = name.rpartition(_SEPARATOR)
                if wanted(tenant):
                    yield {layer: tally}

    async def _put(self, step_s: int, number: int, tallies: dict[str, Tally]) -> None:
        await self._link.call("HSET", _name(step_s, number), self._worker, self._encode(tallies))
        await self._link.call("EXPIRE", _name(step_s, number), step_s * (KEPT[step_s] + 2))

    def _forget(self) -> None:
        """Keeps the minutes of this quarter of an hour and the one before: what is still written is of those."""
        oldest = (int(self._now_s() // QUARTER_S) - 1) * _MINUTES
        for minute in [minute for minute in self._minutes if minute < oldest]:
            del self._minutes[minute]

    def _tally(self, minute: int, tenant_id: str, layer: str) -> Tally:
        tallies = self._minutes.get(minute)
        if tallies is None:
            tallies = self._minutes[minute] = {}
        name = f"{tenant_id}{_SEPARATOR}{layer}"
        found = tallies.get(name)
        if found is None:
            if len(tallies) >= _MOST_NAMES:
                name = f"{_OTHERS}{_SEPARATOR}{layer}"
            found = tallies.setdefault(name, Tally())
        return found


def _name(step_s: int, number: int) -> str:
    return f"{_KEY}:{step_s}:{number}"
