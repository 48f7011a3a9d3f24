"""What was said of answers: listed, and said on somebody's behalf."""

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import ConfigDict, Field

from gateway.db import AuditRepository, AuditRow
from gateway.db.budget import BudgetRepository, MarkRow
from gateway.feedback import Done
from gateway.http.admin.bodies import Body, Name, Page, Said, cursor_number, paged
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import REPEATABLE, Operator, Paged, Reader, area

_EXAMPLE: dict[str, Any] = {"tenant": "default", "id": "0" * 64, "verdict": "wrong"}


class NewFeedback(Body):
    """A verdict.

    Attributes:
        tenant: whose answer it was, by name or id.
        id: the X-Lamina-Cache-Id that came with it.
        verdict: whether it was wrong or right.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    tenant: Name
    id: Annotated[str, Field(min_length=1, max_length=128)]
    verdict: Literal["wrong", "right"]


class Acted(Said):
    """What came of a verdict; see gateway.feedback.Done."""

    id: str
    verdict: str
    already: bool
    purged: list[str]
    quarantined: int
    neighbours: int | None
    labels: int


class Mark(Said):
    """A label that came of feedback, as the error budget learns from it.

    Attributes:
        row: number of the stored answer.
        score: how sure the layer was.
    """

    id: int
    tenant_id: str
    route: str
    row: int | None
    score: float
    right: bool
    at: float


def feedback_router(desk: Desk) -> APIRouter:
    """Feedback. Verdicts that taught nothing leave no mark; what they purged is in the audit."""
    router, marks, audit = area("feedback"), BudgetRepository(desk.database), AuditRepository(desk.database)

    @router.get("/feedback", summary="List feedback")
    async def list_(
        caller: Reader, page: Paged, tenant: Annotated[Name | None, Query(description="Name or id.")] = None
    ) -> Page[Mark]:
        """The newest first."""
        only = caller.tenants if tenant is None else frozenset({(await desk.tenant(caller, tenant)).tenant_id})
        found = await marks.told(only, page.limit + 1, cursor_number(page.after))
        return paged(found, page.limit, lambda row: str(row.number), _shown)

    @router.post("/feedback", summary="Say that an answer was wrong, or right", openapi_extra=REPEATABLE)
    async def say(caller: Operator, body: NewFeedback) -> Acted:
        """What is wrong, and what is near it by meaning, goes out of service before this returns."""
        owner = await desk.tenant(caller, body.tenant)
        done = await desk.feedback.take_for(owner.tenant_id, caller.actor, body.id, body.verdict)
        if not done.already:
            await audit.add(_audited(desk, caller.actor, owner.tenant_id, done))
        return Acted.model_validate(done)

    return router


def _audited(desk: Desk, actor: str, tenant_id: str, done: Done) -> AuditRow:
    detail = {"verdict": done.verdict, "quarantined": done.quarantined, "labels": done.labels}
    return AuditRow(0, desk.now_s(), actor, "feedback", tenant_id, done.id, json.dumps(detail, sort_keys=True))


def _shown(row: MarkRow) -> Mark:
    return Mark(
        id=row.number,
        tenant_id=row.pool.tenant_id,
        route=row.pool.route,
        row=row.row,
        score=row.score,
        right=row.right,
        at=row.at,
    )
