"""Refreshes behind the scenes: calls that nobody waits for, seen through to their end."""

import asyncio

import structlog

from gateway.errors import ApiError, UpstreamError
from gateway.flights import Elsewhere, Passenger
from gateway.telemetry.metrics import Metrics


class Refreshes:
    """Keeps a place on each of them; `close` it once."""

    def __init__(self, metrics: Metrics, log: structlog.typing.FilteringBoundLogger) -> None:
        self._metrics = metrics
        self._log = log
        self._behind: set[asyncio.Task[None]] = set()

    def see_off(self, passenger: Passenger) -> None:
        """Stays aboard on behalf of nobody, so that a call behind the scenes runs to its end."""
        task = asyncio.create_task(self._wait_and_leave(passenger), name="refresh-behind")
        self._behind.add(task)
        task.add_done_callback(self._behind.discard)

    async def _wait_and_leave(self, passenger: Passenger) -> None:
        try:
            await passenger.landed()
        except Elsewhere:
            self._metrics.flight("refresh_elsewhere")
        except (UpstreamError, ApiError) as error:
            self._metrics.fault("refresh", "upstream")
            self._log.warning("refresh_failed", part="refresh", error=str(error))
        finally:
            passenger.leave()

    async def close(self) -> None:
        """Stops them."""
        for task in self._behind:
            task.cancel()
        await asyncio.gather(*self._behind, return_exceptions=True)
