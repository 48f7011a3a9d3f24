"""The ledger as the administrator reads it: money, tokens and time by layer, prompt caches, break-even, levers."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from msgspec import to_builtins
from pydantic import ConfigDict

from gateway.errors import ApiError, StoreUnavailable
from gateway.http.admin.bodies import Said
from gateway.http.admin.caller import Caller
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import FleetReader, Reader, area
from gateway.ledger.accounts import LedgerQuery, last_days
from gateway.ledger.observed import observed
from policies.intervals import Interval, wilson
from policies.ledger.break_even import LIVES_S, told

MOST_DAYS = 400

By = Literal["day", "tenant_id", "route", "provider", "model", "layer"]
Days = Annotated[int, Query(ge=1, le=MOST_DAYS, description="So many days up to today, UTC.")]
Tenant = Annotated[str | None, Query(max_length=80, description="Only this tenant, by name or id.")]

_TOTALS: dict[str, Any] = {
    "requests": 1200,
    "errors": 3,
    "prompt_tokens": 912000,
    "completion_tokens": 84000,
    "mean_ms": 212.4,
    "calls": 510,
    "untold": 0,
    "call_prompt_tokens": 388000,
    "call_completion_tokens": 36000,
    "cost_usd": "1.704",
    "saved_usd": "2.286",
    "unpriced": 0,
}
_LAYER: dict[str, Any] = {
    "layer": "exact",
    "requests": 640,
    "tokens": 531000,
    "mean_ms": 0.61,
    "cost_usd": "0",
    "saved_usd": "2.107",
}


class AccountSaid(Said):
    """What answers cost and saved. Money is exact decimal text; null where no price is known."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "first_day": "2026-11-24",
                    "last_day": "2026-11-30",
                    "currency": "USD",
                    "totals": _TOTALS,
                    "layers": [_LAYER],
                    "groups": [{"group": {"day": "2026-11-30"}, "totals": _TOTALS}],
                    "unpriced_models": ["smollm2"],
                }
            ]
        }
    )

    first_day: str
    last_day: str
    currency: str
    totals: dict[str, Any]
    layers: list[dict[str, Any]]
    groups: list[dict[str, Any]]
    unpriced_models: list[str]


class CacheUseSaid(Said):
    """What prompt caches did, by day, provider and model."""

    items: list[dict[str, Any]]


class LeversSaid(Said):
    """Levers, the one that pays most first."""

    first_day: str
    last_day: str
    levers: list[dict[str, Any]]


def ledger_router(desk: Desk) -> APIRouter:
    """Sums; a token that is bound to some tenants reads theirs."""
    router = area("ledger")
    accounts = desk.ledger.accounts

    async def query(caller: Caller, days: int, tenant: str | None, by: list[By] | None = None) -> LedgerQuery:
        first, last = last_days(desk.now_s(), days)
        tenants = caller.tenants
        if tenant is not None:
            tenants = frozenset({(await desk.tenant(caller, tenant)).tenant_id})
        await desk.ledger.flusher.flush()  # what this worker has counted a moment ago is in
        return LedgerQuery(first, last, tuple(dict.fromkeys(by or ())), tenants)

    @router.get("/ledger", summary="Money, tokens and time by layer")
    async def ledger(
        caller: Reader, days: Days = 7, tenant: Tenant = None, by: Annotated[list[By] | None, Query()] = None
    ) -> AccountSaid:
        """Totals, each layer's share, and groups by day, tenant, route, provider, model or layer."""
        return AccountSaid(**to_builtins(await accounts.account(await query(caller, days, tenant, by))))

    @router.get("/ledger/cache-use", summary="What prompt caches did")
    async def cache_use(caller: Reader, days: Days = 7, tenant: Tenant = None) -> CacheUseSaid:
        """Reads, writes, fresh tokens, hit rate, write share, and the share at which a cache stops paying."""
        found = await accounts.cache_use(await query(caller, days, tenant))
        return CacheUseSaid(items=to_builtins(found))

    @router.get("/ledger/levers", summary="Which lever pays")
    async def levers(caller: FleetReader, days: Days = 7) -> LeversSaid:
        """What each lever saved and between what bounds it might save more; null where nobody counted."""
        wanted = await query(caller, days, None)
        seen = observed(desk.metrics.exposition().decode())
        found = await accounts.levers(wanted, seen, await _lost(desk))
        return LeversSaid(
            first_day=wanted.first_day, last_day=wanted.last_day, levers=[lever.as_json() for lever in found]
        )

    @router.get("/ledger/break-even", summary="When cache writes pay")
    async def pays(
        _caller: Reader,
        model: Annotated[str, Query(max_length=200, examples=["claude-sonnet-5-5"])],
        tokens: Annotated[int, Query(ge=1, le=10_000_000, examples=[50_000])],
        questions: Annotated[int, Query(ge=0, le=10_000_000, description="An hour.", examples=[1_000])] = 0,
    ) -> dict[str, Any]:
        """Reads that pay for a write, the largest write share, and what an hour of questions costs either way."""
        price = accounts.prices.of(model)
        if price is None:
            raise ApiError(404, f"No price of {model[:80]!r} is known; set ledger.prices.", code="no_price")
        return {life: told(price, tokens, questions, life_s) for life, life_s in LIVES_S.items()}

    @router.get("/ledger/prices", summary="The price table")
    async def prices(_caller: Reader) -> dict[str, Any]:
        """Dollars per million tokens, with source and month; settings come before list prices."""
        return {"currency": "USD", "prices": to_builtins(accounts.prices.rows)}

    return router


async def _lost(desk: Desk) -> Interval | None:
    """The share of prompt tokens that the prefix doctor saw being lost; None where it saw nothing."""
    checkup = desk.ledger.checkup
    if checkup is None:
        return None
    try:
        found = await checkup.diagnosis(lambda _tenant_id: True)
    except StoreUnavailable:
        return None
    if not found.compared or found.tokens <= 0:
        return None
    return wilson(min(1.0, found.lost_tokens / found.tokens), found.compared)
