"""Erasures: a tenant or one of its users forgotten in every store, and the proof of it."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import ConfigDict, Field, StringConstraints

from gateway.db import RecordError
from gateway.erasure.book import Erasure, Stood
from gateway.erasure.contract import Scope
from gateway.erasure.opened import Means, open_erasures
from gateway.http.admin.bodies import Body, Name, Page, Said, cursor_number, paged
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import Admin, Paged, area
from gateway.invalidation.replica import TenantReplica

ErasureId = Annotated[str, Path(pattern=r"^E[0-9A-F]{16}$", examples=["E0123456789ABCDEF"])]


class NewErasure(Body):
    """What is to be forgotten.

    Attributes:
        user: an end user's id, as requests name it; without one the whole tenant goes, and is shut out.
        destroy_key: of a user: also destroys the tenant's data keys, so that nothing of them can be read in any
            copy of Redis either; every entry of the tenant goes with them.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"tenant": "acme", "user": "user-1234"}]})

    tenant: Name
    user: Annotated[str, StringConstraints(min_length=1, max_length=512)] | None = None
    destroy_key: bool = False


class Begun(Said):
    """An erasure that was begun.

    Attributes:
        begun_at: seconds since the epoch.
        scope: `tenant` or `user`.
    """

    id: str = Field(examples=["E0123456789ABCDEF"])
    tenant_id: str = Field(examples=["T0123456789ABCDEF"])
    scope: str = Field(examples=["user"])
    actor: str = Field(examples=["admin"])
    begun_at: float = Field(examples=[1764489600.0])


class Listed(Begun):
    """An erasure in a list.

    Attributes:
        state: `running`, `done`, `failed` or `interrupted`.
        complete: of one that is done, whether a second look found every store clean.
    """

    state: str = Field(examples=["done"])
    complete: bool | None


class Step(Said):
    """One step of an erasure: `running`, `clean`, or `left` when something may be there still."""

    name: str
    state: str


class ErasureSaid(Begun):
    """How an erasure stands.

    Attributes:
        state: `running`, `done`, `failed`, or `interrupted` where the worker that ran it is gone: ask for it anew.
        steps, planned: those begun, and how many there are, while it runs.
        report: the proof: per store what was looked at, found, removed, and left at a second look.
        signature: HMAC-SHA256 of the report under the set's secret.
        signed: whether the report is what was signed.
    """

    state: str
    steps: list[Step]
    planned: int
    report: dict[str, Any] | None
    signature: str
    signed: bool


def erasures_router(desk: Desk) -> APIRouter:
    """Erasures. They take the role admin; what is gone is gone for good."""
    router = area("erasures")

    async def learn(tenant_id: str) -> None:
        await desk.replicas.refresh(TenantReplica(tenant_id))

    means = Means(
        desk.settings,
        desk.database,
        desk.redis,
        desk.link,
        desk.sealer,
        desk.announce,
        learn,
        desk.metrics,
        desk.now_s,
    )
    erasures = open_erasures(means)

    @router.post("/erasures", status_code=202, summary="Erase a tenant or a user")
    async def create(caller: Admin, body: NewErasure) -> ErasureSaid:
        """Begun when this returns; `GET` it until it is done. Nothing older is served from then on."""
        owner = await desk.tenant(caller, body.tenant)
        scope = Scope(owner.tenant_id, body.user or "", body.destroy_key)
        return _shown(await _found(await erasures.begin(scope, caller.actor)))

    @router.get("/erasures", summary="List erasures")
    async def list_(caller: Admin, page: Paged) -> Page[Listed]:
        """The latest first."""
        rows = await erasures.begun(caller.tenants, cursor_number(page.after), page.limit + 1)
        stood = await erasures.standings(rows)
        return paged(stood, page.limit, lambda one: str(one.begun.audit_id), _listed)

    @router.get("/erasures/{erasure}", summary="Show an erasure and its proof")
    async def show(caller: Admin, erasure: ErasureId) -> ErasureSaid:
        """With the proof, once it is done."""
        found = await _found(erasure)
        if not caller.may(found.tenant_id):
            raise RecordError("not_found", f"there is no erasure {erasure}")
        return _shown(found)

    async def _found(erasure: str) -> Erasure:
        found = await erasures.find(erasure)
        if found is None:
            raise RecordError("not_found", f"there is no erasure {erasure}")
        return found

    return router


def _listed(one: Stood) -> Listed:
    row = one.begun
    return Listed(
        id=row.target,
        tenant_id=row.tenant_id or "",
        scope=str(json.loads(row.detail)["scope"]),
        actor=row.actor,
        begun_at=row.at,
        state=one.state,
        complete=one.complete,
    )


def _shown(found: Erasure) -> ErasureSaid:
    return ErasureSaid(
        id=found.erasure_id,
        tenant_id=found.tenant_id,
        scope=found.scope,
        actor=found.actor,
        begun_at=found.begun_at,
        state=found.state,
        steps=[Step(name=name, state=state) for name, state in found.steps],
        planned=found.planned,
        report=None if found.report is None else dict(found.report),
        signature=found.signature,
        signed=found.signed,
    )
