"""What the layers did, as figures; and whether the parts of the set are there."""

import asyncio
import time
from typing import Any

from fastapi import APIRouter
from pydantic import Field

from gateway.http.admin.bodies import Said
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import FleetReader, Reader, area
from gateway.telemetry.report import read_report


class Layer(Said):
    """One layer since the gateway started; see gateway.telemetry.report.LayerReport."""

    layer: str = Field(examples=["exact"])
    lookups: int
    hits: int
    would_hits: int
    hit_share: float = Field(examples=[38.4])
    saved_prompt_tokens: int
    saved_completion_tokens: int
    would_save_prompt_tokens: int
    would_save_completion_tokens: int
    misses: dict[str, int] = Field(examples=[{"absent": 120}])


class Stats(Said):
    """All workers of this machine since the gateway started."""

    requests: int
    layers: list[Layer]
    model_prompt_tokens: int
    prompt_cached_tokens: int
    model_completion_tokens: int
    stored: int
    refused_writes: dict[str, int] = Field(examples=[{"pii_email": 3}])
    compared: dict[str, int] = Field(examples=[{"right": 40}])
    faults: dict[str, int] = Field(examples=[{}])


class Part(Said):
    """A part of the set."""

    up: bool
    took_ms: float = Field(examples=[0.4])


class Readiness(Said):
    """ready: all parts answer; degraded: some do not; unready: keys cannot be judged."""

    status: str = Field(examples=["ready"])
    parts: dict[str, Part]


def stats_router(desk: Desk) -> APIRouter:
    """Figures over all tenants; per tenant the ledger has them."""
    router = area("stats")

    @router.get("/stats", summary="Figures by layer")
    async def stats(_caller: FleetReader) -> Stats:
        """As `lamina report` prints them."""
        report = await asyncio.to_thread(_read, desk)
        return Stats.model_validate(report)

    @router.get("/readiness", summary="Whether the parts are there")
    async def readiness(_caller: Reader) -> Readiness:
        """Asks each part now."""
        parts = {name: await _part(desk, name) for name in desk.checks}
        some = any(parts[name].up for name in ("redis", "database") if name in parts)
        whole = all(part.up for part in parts.values())
        return Readiness(status=("ready" if whole else "degraded") if some else "unready", parts=parts)

    return router


def _read(desk: Desk) -> dict[str, Any]:
    return read_report(desk.metrics.exposition().decode()).as_json()


async def _part(desk: Desk, name: str) -> Part:
    begun = time.perf_counter()
    up = await desk.checks[name]()
    return Part(up=up, took_ms=round((time.perf_counter() - begun) * 1000, 3))
