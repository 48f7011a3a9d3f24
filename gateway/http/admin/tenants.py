"""Tenants: listed, made, shown, shut out."""

from fastapi import APIRouter
from pydantic import ConfigDict, Field

from gateway.db import TenantRecord
from gateway.http.admin.bodies import Body, Name, Page, Said, paged
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import REPEATABLE, Admin, FleetAdmin, Paged, Reader, area


class NewTenant(Body):
    """A tenant to be made: 1 to 63 of a-z, 0-9, '.', '_' and '-', a letter or digit first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "acme"}]})

    name: Name


class Tenant(Said):
    """A tenant.

    Attributes:
        created_at, disabled_at: seconds since the epoch; the latter is null while it may ask.
        auth_seq: grows with each change of its keys, limits and modes.
        purge_seq: number of its last purge.
    """

    id: str = Field(examples=["T0123456789ABCDEF"])
    name: str = Field(examples=["acme"])
    created_at: float = Field(examples=[1764489600.0])
    disabled_at: float | None = Field(examples=[None])
    auth_seq: int = Field(examples=[3])
    purge_seq: int = Field(examples=[12])


class Changed(Tenant):
    """A tenant after a change.

    Attributes:
        announced: whether every worker is known to see it; else each follows within about a second.
    """

    announced: bool


def tenants_router(desk: Desk) -> APIRouter:
    """Tenants. A token that is bound to some lists those."""
    router = area("tenants")

    @router.get("/tenants", summary="List tenants")
    async def list_(caller: Reader, page: Paged) -> Page[Tenant]:
        """By name, those that are shut out too."""
        found = await desk.tenants.page(page.limit + 1, page.after or "", caller.tenants)
        return paged(found, page.limit, lambda row: row.name, _shown)

    @router.post("/tenants", status_code=201, summary="Make a tenant")
    async def create(caller: FleetAdmin, body: NewTenant) -> Tenant:
        """Without keys."""
        return _shown(await desk.tenants.create(body.name, caller.actor, desk.now_s()))

    @router.get("/tenants/{tenant}", summary="Show a tenant")
    async def show(caller: Reader, tenant: Name) -> Tenant:
        """By name or id."""
        return _shown(await desk.tenant(caller, tenant))

    @router.post("/tenants/{tenant}/disable", summary="Shut a tenant out", openapi_extra=REPEATABLE)
    async def disable(caller: Admin, tenant: Name) -> Changed:
        """With all its keys, from the next request on, for good."""
        owner = await desk.tenant(caller, tenant)
        state = await desk.tenants.disable(owner.tenant_id, caller.actor, desk.now_s())
        announced = await desk.announce(state.tenant_id, state.auth_seq, state.purge_seq)
        after = await desk.tenants.find(owner.tenant_id)
        return Changed(**_shown(after).model_dump(), announced=announced)

    return router


def _shown(row: TenantRecord) -> Tenant:
    return Tenant(
        id=row.tenant_id,
        name=row.name,
        created_at=row.created_at,
        disabled_at=row.disabled_at,
        auth_seq=row.auth_seq,
        purge_seq=row.purge_seq,
    )
