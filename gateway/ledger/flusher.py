"""Moves a worker's sums to SQL, behind the answers: each batch counts once, and none is lost while SQL is away."""

import asyncio
import contextlib
import secrets
from collections.abc import Callable

from gateway.db.ledger import Batch, LedgerRepository, day_of
from gateway.errors import DatabaseUnavailable
from gateway.ledger.book import Ledger
from gateway.telemetry.metrics import Metrics

FLUSH_S = 1.0
"""How far the stored sums lag behind, and what a worker that is killed takes with it."""

_DAY_S = 86_400
_FORGET_EVERY = 3_600
_AGAIN_S = 0.1


class Flusher:
    """Sends batches, one at a time, numbered; one that may or may not have arrived is sent again under its number.

    Args:
        ledger: whose sums.
        repository: where they go.
        keep_days: sums of older days are deleted.
        closing_s: how long closing tries.
    """

    def __init__(
        self,
        ledger: Ledger,
        repository: LedgerRepository,
        metrics: Metrics,
        now_s: Callable[[], float],
        *,
        keep_days: int,
        closing_s: float = 3.0,
    ) -> None:
        self._ledger = ledger
        self._repository = repository
        self._metrics = metrics
        self._now_s = now_s
        self._keep_days = keep_days
        self._closing_s = closing_s
        self._worker = secrets.token_hex(16)
        self._number = 0
        self._unsure: Batch | None = None
        self._one_at_a_time = asyncio.Lock()

    async def run(self) -> None:
        """Flushes for ever."""
        rounds = 0
        while True:
            await asyncio.sleep(FLUSH_S)
            try:
                await self.flush()
                if rounds % _FORGET_EVERY == 0:
                    await self._forget()
                rounds += 1
            except DatabaseUnavailable:
                self._metrics.fault("ledger", "unavailable")
            except Exception as error:  # noqa: BLE001  (recorded; without flushes all sums would be lost in the end)
                self._metrics.fault("ledger", type(error).__name__)

    async def flush(self) -> None:
        """Stores what was added so far.

        Raises:
            DatabaseUnavailable: it is kept, and sent with the next flush.
        """
        async with self._one_at_a_time:
            await self._settle()
            sums = self._ledger.take()
            if sums:
                self._number += 1
                self._unsure = Batch(self._worker, self._number, sums)
                await self._settle()

    async def close(self) -> None:
        """Stores the rest; what cannot be stored within `closing_s` is lost, and counted."""
        try:
            async with asyncio.timeout(self._closing_s):
                await self._flush_at_last()
        except TimeoutError:
            self._metrics.fault("ledger", "lost")

    async def _flush_at_last(self) -> None:
        while True:
            with contextlib.suppress(DatabaseUnavailable):
                await self.flush()
                return
            await asyncio.sleep(_AGAIN_S)

    async def _settle(self) -> None:
        if self._unsure is not None:
            await self._repository.add(self._unsure, self._now_s())
            self._unsure = None

    async def _forget(self) -> None:
        now_s = self._now_s()
        await self._repository.forget(day_of(int(now_s // _DAY_S) - self._keep_days), now_s)
