"""How far an erasure is: told in Redis by the worker that runs it, again and again while it lives."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from gateway.errors import StoreUnavailable
from gateway.redis_link import RedisLink

_BEAT_S = 2.0
LOST_AFTER_S = 15
"""A worker that told nothing for this long is gone."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What is told of an erasure.

    Attributes:
        silent: whether Redis answers and knows of none that runs it.
        steps: (name, state) of those begun, in order; empty where Redis does not tell.
        planned: how many steps there are; 0 where Redis does not tell.
    """

    silent: bool
    steps: tuple[tuple[str, str], ...] = ()
    planned: int = 0


class Progress:
    """Tells how far erasures are, and reads what others told.

    Args:
        link: to the Redis of every worker.
        beat_s: time between two signs of life.
    """

    def __init__(self, link: RedisLink, *, beat_s: float = _BEAT_S) -> None:
        self._link = link
        self._beat_s = beat_s

    async def tell(self, erasure_id: str, steps: Mapping[str, str], planned: int) -> None:
        """Tells the steps begun, of so many planned; never raises."""
        value = orjson.dumps({"steps": list(steps.items()), "planned": planned})
        try:
            await self._link.call("SET", _key(erasure_id), value, "EX", LOST_AFTER_S)
        except StoreUnavailable:
            return  # it is only progress

    async def keep_telling(self, erasure_id: str, steps: Mapping[str, str], planned: int) -> None:
        """Tells it until cancelled, since a step may take long."""
        while True:
            await self.tell(erasure_id, steps, planned)
            await asyncio.sleep(self._beat_s)

    async def read(self, erasure_id: str) -> Standing:
        """What is told of it; looks again a beat later where that is nothing: Redis may have forgotten it."""
        found = await self._read(erasure_id)
        if not found.silent:
            return found
        await asyncio.sleep(1.5 * self._beat_s)
        return await self._read(erasure_id)

    async def untold(self, erasure_ids: Sequence[str]) -> frozenset[str]:
        """Those that Redis knows nothing of; none where it does not answer.

        Looks once, so that it also names one that runs where Redis forgot it within this beat.
        """
        try:
            found = await self._link.call("MGET", *map(_key, erasure_ids))
        except StoreUnavailable:
            return frozenset()
        told = found if isinstance(found, list) else ()
        return frozenset(one for one, raw in zip(erasure_ids, told, strict=False) if raw is None)

    async def _read(self, erasure_id: str) -> Standing:
        try:
            raw = await self._link.call("GET", _key(erasure_id))
        except StoreUnavailable:
            return Standing(silent=False)
        if not isinstance(raw, bytes):
            return Standing(silent=True)
        try:
            told = orjson.loads(raw)
            steps = tuple((str(name), str(state)) for name, state in told["steps"])
            return Standing(silent=False, steps=steps, planned=int(told["planned"]))
        except (ValueError, TypeError, KeyError):
            return Standing(silent=False)


def _key(erasure_id: str) -> str:
    return f"lamina:erasure:{erasure_id}"
