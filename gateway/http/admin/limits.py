"""What a tenant may use: shown and set."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import ConfigDict, Field

from gateway.db import OverrideRepository
from gateway.http.admin.bodies import Body, Name, Said
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import Admin, Reader, area
from policies.limits import MOST, Limits

Bound = Annotated[int, Field(ge=0, le=MOST)]
_EXAMPLE = {"requests_per_minute": 600, "tokens_per_day": 5_000_000, "concurrent": 32}


class NewLimits(Body):
    """Limits, all of them: one that is absent or null is lifted."""

    model_config = ConfigDict(json_schema_extra={"examples": [dict(_EXAMPLE)]})

    requests_per_minute: Bound | None = None
    tokens_per_day: Bound | None = None
    concurrent: Bound | None = None


class LimitsSaid(Said):
    """A tenant's limits; null is no limit."""

    tenant_id: str = Field(examples=["T0123456789ABCDEF"])
    requests_per_minute: int | None = Field(examples=[600])
    tokens_per_day: int | None = Field(examples=[5_000_000])
    concurrent: int | None = Field(examples=[32])


class LimitsSet(LimitsSaid):
    """Limits after they were set.

    Attributes:
        announced: whether every worker is known to hold to them; else each does within about a second.
    """

    announced: bool


def limits_router(desk: Desk) -> APIRouter:
    """Limits, below their tenant; docs/admin-api.md says how they are counted."""
    router, overrides = area("limits"), OverrideRepository(desk.database)

    @router.get("/tenants/{tenant}/limits", summary="Show limits")
    async def show(caller: Reader, tenant: Name) -> LimitsSaid:
        """As they stand."""
        owner = await desk.tenant(caller, tenant)
        limits = (await overrides.of(owner.tenant_id)).limits
        return LimitsSaid(tenant_id=owner.tenant_id, **limits.as_json())

    @router.put("/tenants/{tenant}/limits", summary="Set limits")
    async def set_(caller: Admin, tenant: Name, body: NewLimits) -> LimitsSet:
        """From the next request on."""
        owner = await desk.tenant(caller, tenant)
        limits = Limits(body.requests_per_minute, body.tokens_per_day, body.concurrent)
        state = await overrides.set_limits(owner.tenant_id, limits, caller.actor, desk.now_s())
        announced = await desk.announce(state.tenant_id, state.auth_seq, state.purge_seq)
        return LimitsSet(tenant_id=owner.tenant_id, announced=announced, **limits.as_json())

    return router
