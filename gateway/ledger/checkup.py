"""The prefix doctor at work: prompts that reached a model, beside the recent ones, behind the answers.

Prompts stay in this worker's memory, the recent ones only; what is shared by way of Redis names fields and counts
tokens. Each worker writes its own sums whole, so that a write that is sent twice counts once.
"""

import asyncio
import contextlib
import secrets
from collections import deque
from collections.abc import Callable

import msgspec

from gateway.errors import StoreUnavailable
from gateway.ledger.lines import Called
from gateway.redis_link import RedisLink
from gateway.telemetry.metrics import Metrics
from policies.doctor import Chart, Diagnosis, Doctor, Seen, merged, parts_of
from policies.types import Json

CHECKUPS_KEY = "lamina:doctor"
SPAN_S = 86_400
"""Sums begin anew after this time, and older ones of other workers do not count."""

_WRITE_S = 5.0
_MOST_WAITING = 32
_MOST_CHARS = 1 << 20
_MOST_TENANTS = 1_000
_MOST_AILMENTS = 100


class _Sums(msgspec.Struct):
    """What a worker found, by tenant, and when it last wrote."""

    at_s: float
    tenants: dict[str, Diagnosis]


class Checkup:
    """Takes calls at once and looks at their prompts later, some of them when there are too many.

    Args:
        link: the way to Redis.
        now_s: seconds since the epoch.
    """

    def __init__(self, link: RedisLink, metrics: Metrics, now_s: Callable[[], float]) -> None:
        self._link = link
        self._metrics = metrics
        self._now_s = now_s
        self._worker = secrets.token_hex(8)
        self._waiting: deque[tuple[Called, Json]] = deque()
        self._more = asyncio.Event()
        self._doctor = Doctor()
        self._charts: dict[str, Chart] = {}
        self._since_s = now_s()
        self._changed = False
        self._turn = asyncio.Lock()
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder(_Sums).decode

    def add(self, call: Called, body: Json) -> None:
        """Queues a call's prompt; it is left out when too many wait."""
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append((call, body))
            self._more.set()

    async def run(self) -> None:
        """Looks at prompts and writes what was found, for ever."""
        last_s = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WRITE_S):
                    await self._more.wait()
            await self.look()
            if self._now_s() - last_s >= _WRITE_S:
                last_s = self._now_s()
                await self.write()

    async def look(self) -> None:
        """Looks at what waits, one prompt after the other, in a thread: a long one takes milliseconds."""
        while self._waiting:
            call, body = self._waiting.popleft()
            try:
                async with self._turn:
                    await asyncio.to_thread(self._examine, call, body)
            except Exception as error:  # noqa: BLE001  (recorded; a prompt nobody understands costs its finding)
                self._metrics.fault("doctor", type(error).__name__)
        self._more.clear()

    def _examine(self, call: Called, body: Json) -> None:
        parts = parts_of(body)
        if sum(len(part.text) for part in parts) > _MOST_CHARS:
            return
        if self._now_s() - self._since_s > SPAN_S:
            self._charts.clear()
            self._since_s = self._now_s()
        chart = self._charts.get(call.tenant_id)
        if chart is None:
            if len(self._charts) >= _MOST_TENANTS:
                return
            chart = self._charts[call.tenant_id] = Chart(quoted=False, most=_MOST_AILMENTS)
        tokens = (call.usage or {}).get("prompt_tokens")
        counted = tokens if isinstance(tokens, int) and tokens > 0 else 0
        chart.add(self._doctor.see(Seen((call.tenant_id, call.model), parts, counted, self._now_s())))
        self._changed = True

    async def write(self) -> None:
        """Writes this worker's sums; what cannot be written is written the next time."""
        if not self._changed:
            return
        async with self._turn:
            sums = _Sums(self._now_s(), {tenant: chart.diagnosis() for tenant, chart in self._charts.items()})
        try:
            await self._link.call("HSET", CHECKUPS_KEY, self._worker, self._encode(sums))
            await self._link.call("EXPIRE", CHECKUPS_KEY, SPAN_S)
            self._changed = False
        except StoreUnavailable:
            self._metrics.fault("doctor", "unavailable")

    async def diagnosis(self, wanted: Callable[[str], bool]) -> Diagnosis:
        """What all workers found of the tenants that are wanted, by id, in the last day.

        Raises:
            StoreUnavailable: Redis does not say.
        """
        await self.write()
        raw = await self._link.call("HGETALL", CHECKUPS_KEY)
        values = raw[1::2] if isinstance(raw, list) else []
        found: list[Diagnosis] = []
        for value in values:
            try:
                sums = self._decode(value if isinstance(value, bytes) else b"")
            except msgspec.DecodeError:  # of another version, or nobody's
                continue
            if self._now_s() - sums.at_s <= SPAN_S:
                found += [one for tenant, one in sums.tenants.items() if wanted(tenant)]
        return merged(found)
