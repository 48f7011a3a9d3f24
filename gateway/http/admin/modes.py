"""Routes, and the modes in which an operator has them served now: off, observe, exact or semantic."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from pydantic import ConfigDict, Field

from gateway.db import OverrideRepository
from gateway.db.overrides import EVERY_TENANT
from gateway.errors import ApiError
from gateway.http.admin.bodies import Body, Name, Said
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import FleetOperator, Operator, Reader, area
from gateway.settings import Mode

_EXAMPLE: dict[str, Any] = {"modes": {"smollm2": "observe"}}


class NewModes(Body):
    """Modes by name of the route, all of them: a route that is not named is served as before."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    modes: dict[str, Mode] = Field(max_length=1000)


class RouteSaid(Said):
    """A route.

    Attributes:
        model: provider and the provider's own name for the model that answers.
        fallback: those that are asked when it fails.
        settings_mode: as the settings say; `mode`: as it is served, over all tenants or for one.
        versions: parts of every key of the route.
    """

    name: str = Field(examples=["smollm2"])
    aliases: list[str] = Field(examples=[["gpt-4o-mini"]])
    model: str = Field(examples=["engine/smollm2"])
    fallback: list[str] = Field(examples=[[]])
    ttl_s: int = Field(examples=[86400])
    settings_mode: str = Field(examples=["exact"])
    mode: str = Field(examples=["observe"])
    versions: dict[str, str] = Field(examples=[{"engine.revision": "5f2c"}])


class RoutesSaid(Said):
    """Every route, in the order of the settings."""

    items: list[RouteSaid]


class ModesSaid(Said):
    """Modes that are set, of every tenant or of one, by name of the route."""

    tenant_id: str | None = Field(examples=[None])
    modes: dict[str, str] = Field(examples=[{"smollm2": "observe"}])


class ModesSet(ModesSaid):
    """Modes after they were set.

    Attributes:
        announced: whether every worker is known to serve so; else each does within about a second. Of all tenants,
            the first that Redis does not confirm ends the announcing.
    """

    announced: bool


def modes_router(desk: Desk) -> APIRouter:
    """Routes and modes. A mode for one tenant stands above one for all, and that above the settings."""
    router, overrides = area("modes"), OverrideRepository(desk.database)

    @router.get("/routes", summary="List routes")
    async def routes(_caller: Reader) -> RoutesSaid:
        """As they are served to tenants without modes of their own."""
        return _routes(desk, (await overrides.of(EVERY_TENANT)).modes)

    @router.get("/tenants/{tenant}/routes", summary="List routes as a tenant is served")
    async def tenant_routes(caller: Reader, tenant: Name) -> RoutesSaid:
        """With the modes that are set for it and for all."""
        owner = await desk.tenant(caller, tenant)
        state = await desk.tenants.state(owner.tenant_id)
        return _routes(desk, {} if state is None else state.overrides.modes)

    @router.get("/modes", summary="Show modes for every tenant")
    async def show(_caller: Reader) -> ModesSaid:
        """Those that were set, not those of the settings."""
        return ModesSaid(tenant_id=None, modes=dict((await overrides.of(EVERY_TENANT)).modes))

    @router.put("/modes", summary="Set modes for every tenant")
    async def set_(caller: FleetOperator, body: NewModes) -> ModesSet:
        """From the next request of each tenant on."""
        _check(desk, body.modes)
        heads = await overrides.set_modes_for_all(body.modes, caller.actor, desk.now_s())
        announced = await desk.announce_all(heads)
        return ModesSet(tenant_id=None, modes=dict(body.modes), announced=announced)

    @router.get("/tenants/{tenant}/modes", summary="Show a tenant's modes")
    async def tenant_show(caller: Reader, tenant: Name) -> ModesSaid:
        """Those that were set for it alone."""
        owner = await desk.tenant(caller, tenant)
        return ModesSaid(tenant_id=owner.tenant_id, modes=dict((await overrides.of(owner.tenant_id)).modes))

    @router.put("/tenants/{tenant}/modes", summary="Set a tenant's modes")
    async def tenant_set(caller: Operator, tenant: Name, body: NewModes) -> ModesSet:
        """From its next request on."""
        owner = await desk.tenant(caller, tenant)
        _check(desk, body.modes)
        state = await overrides.set_modes(owner.tenant_id, body.modes, caller.actor, desk.now_s())
        announced = await desk.announce(state.tenant_id, state.auth_seq, state.purge_seq)
        return ModesSet(tenant_id=owner.tenant_id, modes=dict(body.modes), announced=announced)

    return router


def _routes(desk: Desk, modes: Mapping[str, str]) -> RoutesSaid:
    return RoutesSaid(
        items=[
            RouteSaid(
                name=route.name,
                aliases=list(route.aliases),
                model=route.primary.effective_model,
                fallback=[target.effective_model for target in route.targets[1:]],
                ttl_s=route.ttl_s,
                settings_mode=route.mode,
                mode=route.under(modes).mode,
                versions=dict(route.versions),
            )
            for route in desk.routes.all()
        ]
    )


def _check(desk: Desk, modes: Mapping[str, str]) -> None:
    """Refuses modes that would be obeyed in name only."""
    known = {route.name for route in desk.routes.all()}
    for name, mode in modes.items():
        if name not in known:
            raise ApiError(404, f"There is no route {name[:80]!r}.", code="not_found", param="modes")
        if mode == "semantic" and desk.link is None:
            problem = "No semantic service is used by this set, so nothing can be compared by meaning."
            raise ApiError(409, problem, code="no_semantic_service", param="modes")
