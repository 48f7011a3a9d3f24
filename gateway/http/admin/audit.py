"""The audit: who changed what, and when."""

import json
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from gateway.db import AuditRepository, AuditRow
from gateway.db.audit import AuditQuery
from gateway.http.admin.bodies import Name, Page, Said, cursor_number, paged
from gateway.http.admin.caller import Caller
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import Paged, Reader, area


class Line(Said):
    """One change.

    Attributes:
        actor: `admin`, `token:` and an id, `key` and an id, `cli:` and a user, or a part of Lamina.
        tenant_id: whose records changed; null for what concerns every tenant.
        target: id of what was changed.
        detail: what else there is to know; never a secret.
    """

    id: int = Field(examples=[41])
    at: float = Field(examples=[1764489600.0])
    actor: str = Field(examples=["token:A0123456789ABCDEF"])
    action: str = Field(examples=["key.create"])
    tenant_id: str | None = Field(examples=["T0123456789ABCDEF"])
    target: str = Field(examples=["K0123456789ABCDEF"])
    detail: dict[str, Any] = Field(examples=[{"label": "chat backend", "hint": "x4Qz"}])


async def _asked(
    actor: Annotated[str | None, Query(max_length=512)] = None,
    action: Annotated[str | None, Query(max_length=32, description="Whole, or a beginning as in `key.`.")] = None,
    from_s: Annotated[float | None, Query(description="Seconds since the epoch.")] = None,
    until_s: Annotated[float | None, Query(description="Seconds since the epoch, not included.")] = None,
    newest_first: Annotated[bool, Query()] = True,
) -> AuditQuery:
    return AuditQuery(None, actor, action, from_s, until_s, newest_first)


def audit_router(desk: Desk) -> APIRouter:
    """The audit. A token that is bound to tenants sees what concerns those."""
    router, audit = area("audit"), AuditRepository(desk.database)

    @router.get("/audit", summary="Read the audit")
    async def list_(
        caller: Reader,
        page: Paged,
        asked: Annotated[AuditQuery, Depends(_asked)],
        tenant: Annotated[Name | None, Query(description="Name or id.")] = None,
    ) -> Page[Line]:
        """Newest first unless asked otherwise."""
        wanted = replace(asked, tenants=await _tenants(desk, caller, tenant))
        found = await audit.page(wanted, page.limit + 1, cursor_number(page.after))
        return paged(found, page.limit, lambda row: str(row.audit_id), _shown)

    return router


async def _tenants(desk: Desk, caller: Caller, tenant: str | None) -> frozenset[str] | None:
    if tenant is None:
        return caller.tenants
    return frozenset({(await desk.tenant(caller, tenant)).tenant_id})


def _shown(row: AuditRow) -> Line:
    return Line(
        id=row.audit_id,
        at=row.at,
        actor=row.actor,
        action=row.action,
        tenant_id=row.tenant_id,
        target=row.target,
        detail=json.loads(row.detail),
    )
