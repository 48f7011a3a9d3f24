"""Versions of prompts, tools, knowledge bases, policies, models and adapters, and what stands on them."""

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query

from gateway.db import By, Changed, RecordError, VersionRepository, VersionRow
from gateway.db.version_rows import EVERYBODY, graph_of
from gateway.errors import ApiError
from gateway.http.admin.bodies import Name, Page, paged
from gateway.http.admin.caller import Caller
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import (
    READS,
    REPEATABLE,
    FleetAdmin,
    FleetReader,
    Operator,
    Paged,
    Paging,
    Reader,
    area,
)
from gateway.http.admin.version_bodies import (
    ChangedSaid,
    ForeseenSaid,
    ImpactSaid,
    Mode,
    NewVersion,
    VersionId,
    VersionSaid,
    What,
    names,
    scopes,
    shown,
    shown_change,
    shown_id,
)
from policies.dependencies import Affected, Change, DependencyRefused, Graph, Ref, Version, affected
from policies.purge_scopes import Purge
from policies.registrations import version_of

_LAYERS = ("exact", "semantic")

Within = Annotated[float, Query(gt=0, le=60)]
Told = TypeVar("Told", bound=ImpactSaid)


class VersionDesk:
    """Makes changes of versions, and says what they would take."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.versions = VersionRepository(desk.database)

    async def register(self, caller: Caller, tenant_id: str | None, body: NewVersion) -> ChangedSaid:
        """Registers for a tenant or for all.

        Raises:
            ApiError: 400.
            RecordError: see VersionRepository.register.
        """
        by = By(caller.actor, body.mode, self._desk.now_s())
        return await self._told(await self.versions.register(tenant_id, _version(body), by, beside=body.beside))

    async def retire(self, caller: Caller, tenant_id: str | None, id_: str, mode: Mode) -> ChangedSaid:
        """Retires a version of a tenant, or one of all."""
        by = By(caller.actor, mode, self._desk.now_s())
        return await self._told(await self.versions.retire(tenant_id, _ref(id_), by))

    async def page(self, tenant_id: str | None, paging: Paging) -> Page[VersionSaid]:
        """A page of what a tenant sees, or of what is everybody's, by name."""
        rows = sorted(await self.versions.visible(tenant_id), key=_place)
        if paging.after is not None:
            after = next((row for row in rows if str(row.version.ref) == paging.after), None)
            if after is None:
                raise ApiError(400, "Send the `next` of the page before.", code="bad_after", param="after")
            rows = [row for row in rows if _place(row) > _place(after)]
        return paged(rows[: paging.limit + 1], paging.limit, lambda row: str(row.version.ref), shown)

    async def impact(self, tenant_id: str | None, change: Change, within_s: float) -> ImpactSaid:
        """What a change would take of a tenant, or of every one.

        Raises:
            RecordError: not_found.
        """
        graphs = await self._graphs(tenant_id)
        shared = affected(graphs[EVERYBODY], change)
        _known(graphs[EVERYBODY], change.ref)
        owners = [tenant_id] if tenant_id else [one.tenant_id for one in await self._desk.tenants.list()]
        of_each = {owner: affected(graphs.get(owner, graphs[EVERYBODY]), change) for owner in owners}
        return await self._counted(_nothing_yet(change, tenant_id, shared), of_each, within_s)

    async def foreseen(self, tenant_id: str | None, body: NewVersion, within_s: float) -> ForeseenSaid:
        """What a registration would come to.

        Raises:
            ApiError, RecordError: as `register`.
        """
        version = _version(body)
        found = await self.versions.foreseen(tenant_id, version, beside=body.beside)
        said = _nothing_yet(Change("register", version.ref, body.beside), tenant_id, found.taken)
        retired = sorted(map(str, found.retired))
        foreseen = ForeseenSaid(**said.model_dump(), outcome=found.outcome, retired=retired)
        return await self._counted(foreseen, found.of_each, within_s)

    async def _counted(self, said: Told, of_each: Mapping[str, Affected], within_s: float) -> Told:
        """With what would go of each tenant, as far as there is time."""
        due_s = time.monotonic() + within_s
        versions = dict.fromkeys(said.taken)
        for tenant_id, taken in of_each.items():
            versions.update(dict.fromkeys(names(taken.versions)))
            left_s = due_s - time.monotonic()
            if left_s <= 0:
                said = said.model_copy(update={"complete": False})
                continue
            purges = [Purge(1, kind, value, "hard") for kind, value in taken.scopes]
            preview = await self._desk.survey.preview(tenant_id, purges, within_s=left_s, sample=0)
            said = said.model_copy(
                update={
                    "matches": {one: said.matches.get(one, 0) + n for one, n in preview.matches.items()},
                    "looked_at": {one: said.looked_at.get(one, 0) + n for one, n in preview.looked_at.items()},
                    "unread": said.unread + preview.unread,
                    "complete": said.complete and preview.complete,
                }
            )
        return said.model_copy(update={"taken": sorted(versions)})

    async def _graphs(self, tenant_id: str | None) -> dict[str, Graph]:
        """By tenant where it has versions of its own, and the one that is asked about under EVERYBODY."""
        if tenant_id is not None:
            return {EVERYBODY: graph_of(await self.versions.visible(tenant_id))}
        rows = await self.versions.everything()
        shared = [row for row in rows if row.scope == EVERYBODY]
        own = {row.scope for row in rows} - {EVERYBODY}
        graphs = {scope: graph_of([*shared, *_of(rows, scope)]) for scope in own}
        return {EVERYBODY: graph_of(shared), **graphs}

    async def _told(self, changed: Changed) -> ChangedSaid:
        return shown_change(changed, announced=await self._desk.announce_all(changed.heads))


def versions_router(desk: Desk) -> APIRouter:
    """Versions of a tenant take an operator, those of every tenant an administrator of all."""
    router, work = area("versions"), VersionDesk(desk)

    @router.get("/tenants/{tenant}/versions", summary="List a tenant's versions")
    async def tenant_list(caller: Reader, tenant: Name, paging: Paged) -> Page[VersionSaid]:
        """Its own and everybody's."""
        return await work.page((await desk.tenant(caller, tenant)).tenant_id, paging)

    @router.post("/tenants/{tenant}/versions", summary="Register a tenant's version", openapi_extra=REPEATABLE)
    async def tenant_register(caller: Operator, tenant: Name, body: NewVersion) -> ChangedSaid:
        """What stands on what it replaces goes, from the next request on, on every worker and replica."""
        return await work.register(caller, (await desk.tenant(caller, tenant)).tenant_id, body)

    @router.post(
        "/tenants/{tenant}/versions/preview", summary="Preview a tenant's registration", openapi_extra=READS
    )
    async def tenant_preview(
        caller: Operator, tenant: Name, body: NewVersion, within_s: Within = 10.0
    ) -> ForeseenSaid:
        """What it would come to, and take; nothing is changed."""
        return await work.foreseen((await desk.tenant(caller, tenant)).tenant_id, body, within_s)

    @router.delete("/tenants/{tenant}/versions/{version}", summary="Retire a tenant's version")
    async def tenant_retire(
        caller: Operator, tenant: Name, version: VersionId, mode: Mode = "hard"
    ) -> ChangedSaid:
        """By `name@version`; what stands on it goes."""
        return await work.retire(caller, (await desk.tenant(caller, tenant)).tenant_id, version, mode)

    @router.get("/versions", summary="List versions of every tenant")
    async def list_(_caller: FleetReader, paging: Paged) -> Page[VersionSaid]:
        """Those that are registered for all."""
        return await work.page(None, paging)

    @router.post("/versions", summary="Register a version for every tenant", openapi_extra=REPEATABLE)
    async def register(caller: FleetAdmin, body: NewVersion) -> ChangedSaid:
        """What stands on what it replaces goes, of each tenant."""
        return await work.register(caller, None, body)

    @router.post("/versions/preview", summary="Preview a registration for every tenant", openapi_extra=READS)
    async def preview(_caller: FleetAdmin, body: NewVersion, within_s: Within = 10.0) -> ForeseenSaid:
        """What it would come to, and take of each tenant; nothing is changed."""
        return await work.foreseen(None, body, within_s)

    @router.delete("/versions/{version}", summary="Retire a version of every tenant")
    async def retire(caller: FleetAdmin, version: VersionId, mode: Mode = "hard") -> ChangedSaid:
        """By `name@version`."""
        return await work.retire(caller, None, version, mode)

    return router


def dependencies_router(desk: Desk) -> APIRouter:
    """What a change would take."""
    router, work = area("dependencies"), VersionDesk(desk)

    @router.get("/dependencies/{version}/impact", summary="What a change would take")
    async def impact(
        caller: Reader,
        version: VersionId,
        tenant: Name | None = None,
        change: What | None = None,
        *,
        beside: bool = False,
        within_s: Within = 10.0,
    ) -> ImpactSaid:
        """Of `name@version`: should its content change; of `name`: should it get a new version.

        Without `tenant`, of every tenant.
        """
        tenant_id = None if tenant is None else (await desk.tenant(caller, tenant)).tenant_id
        if tenant_id is None:
            caller.require("reader", everywhere=True)
        ref = _ref(version, whole=False)
        what: What = change or ("content" if ref.version else "register")
        return await work.impact(tenant_id, Change(what, ref, beside), within_s)

    return router


def _ref(text: str, *, whole: bool = True) -> Ref:
    try:
        ref = Ref.parse(text)
    except DependencyRefused as refused:
        raise _refused(refused) from None
    if whole and not ref.version:
        raise ApiError(400, "Name it as name@version.", code="bad_version", param="version")
    return ref


def _version(body: NewVersion) -> Version:
    try:
        return version_of(body.said())
    except DependencyRefused as refused:
        raise _refused(refused) from None


def _nothing_yet(change: Change, tenant_id: str | None, shared: Affected) -> ImpactSaid:
    """Before anything was counted."""
    return ImpactSaid(
        id=shown_id(change),
        change=change.what,
        tenant=tenant_id,
        taken=names(shared.versions),
        scopes=scopes(shared),
        matches=dict.fromkeys(_LAYERS, 0),
        looked_at=dict.fromkeys(_LAYERS, 0),
        unread=0,
        complete=True,
    )


def _known(graph: Graph, ref: Ref) -> None:
    if not (ref in graph.versions if ref.version else graph.of(ref.name)):
        raise RecordError("not_found", f"{ref} is not registered here")


def _of(rows: Sequence[VersionRow], scope: str) -> list[VersionRow]:
    return [row for row in rows if row.scope == scope]


def _place(row: VersionRow) -> tuple[str, float, str]:
    return row.version.name, row.registered_at, row.version.version


def _refused(refused: DependencyRefused) -> ApiError:
    told = str(refused)
    return ApiError(400, f"{told[:1].upper()}{told[1:]}.", code="bad_version", param="version")
