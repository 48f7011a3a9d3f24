"""Tells when somebody sets the clock of the machine."""

import asyncio

import structlog

from gateway.clock import STEP_S, Clock
from gateway.telemetry.metrics import Metrics

_EVERY_S = 5.0


async def watch_clock(clock: Clock, metrics: Metrics, log: structlog.typing.FilteringBoundLogger) -> None:
    """Says once per step, for ever: this worker goes on as before, but what it tells others of the time is off."""
    told_s = 0.0
    while True:
        stepped_s = clock.stepped_s()
        if abs(stepped_s - told_s) > STEP_S:
            told_s = stepped_s
            metrics.fault("clock", "stepped")
            log.warning("clock_stepped", part="clock", by_s=round(stepped_s))
        await asyncio.sleep(_EVERY_S)
