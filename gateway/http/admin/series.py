"""Figures over the last hour and day."""

from collections.abc import Mapping
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from gateway.http.admin.bodies import Said
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import Reader, area
from gateway.ledger.recent import MINUTE_S, QUARTER_S
from policies.ledger import usd
from policies.series import Tally, merged, total

Stretch = Literal["hour", "day"]
_STEPS: Mapping[str, int] = {"hour": MINUTE_S, "day": QUARTER_S}
_US_PER_MS = 1000


class Figures(Said):
    """What happened in a span of time.

    Attributes:
        errors: requests that ended badly, clients that left among them.
        p50_ms, p95_ms: estimates within 9 %; None without requests.
        saved_tokens: prompts and answers that no model had to compute.
    """

    requests: int
    errors: int
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    prompt_tokens: int
    completion_tokens: int
    saved_tokens: int
    cost_usd: str
    saved_usd: str


class Point(Said):
    """One slot; `at` is its start in seconds since the epoch."""

    at: int
    layers: dict[str, Figures]


class Series(Said):
    """Slots, oldest first, and what they sum up to."""

    step_s: int
    points: list[Point]
    layers: dict[str, Figures]
    total: Figures


def series_router(desk: Desk) -> APIRouter:
    """Figures over time; a token that is bound to some tenants reads theirs."""
    router = area("series")
    recent = desk.ledger.recent

    @router.get("/series", summary="Figures over time")
    async def series(
        caller: Reader, span: Stretch = "hour", tenant: Annotated[str | None, Query(max_length=80)] = None
    ) -> Series:
        """By layer: the last hour by minute, or the last day by quarter of an hour. The ledger is exact."""
        only = None if tenant is None else (await desk.tenant(caller, tenant)).tenant_id
        found = await recent.read(_STEPS[span], lambda one: caller.may(one) if only is None else one == only)
        layers = merged(by_layer for _, by_layer in found)
        return Series(
            step_s=_STEPS[span],
            points=[Point(at=at, layers=_shown(by_layer)) for at, by_layer in found],
            layers=_shown(layers),
            total=_figures(total(layers.values())),
        )

    return router


def _shown(layers: Mapping[str, Tally]) -> dict[str, Figures]:
    return {layer: _figures(tally) for layer, tally in sorted(layers.items())}


def _figures(tally: Tally) -> Figures:
    return Figures(
        requests=tally.requests,
        errors=tally.errors,
        mean_ms=round(tally.latency_us / tally.requests / _US_PER_MS, 3) if tally.requests else None,
        p50_ms=tally.percentile_ms(0.5),
        p95_ms=tally.percentile_ms(0.95),
        prompt_tokens=tally.prompt_tokens,
        completion_tokens=tally.completion_tokens,
        saved_tokens=tally.saved_tokens,
        cost_usd=usd(tally.cost_pico),
        saved_usd=usd(tally.saved_pico),
    )
