"""How the layer that compares meaning is doing: its service, and its error budgets."""

from typing import Any

from fastapi import APIRouter
from msgspec import to_builtins

from gateway.budget.report import BudgetLine, budget_report
from gateway.http.admin.bodies import Said
from gateway.http.admin.desk import Desk
from gateway.http.admin.frame import Reader, area


class Budgets(Said):
    """Every budget that this worker has met."""

    budgets: list[dict[str, Any]]


def learning_router(desk: Desk) -> APIRouter:
    """Service and budgets."""
    router = area("learning")

    @router.get("/budget", summary="Error budgets")
    async def budget(caller: Reader) -> Budgets:
        """Caution, audits, wrong answers with intervals, and labels, by tenant and route."""
        lines: list[BudgetLine] = [] if desk.budget is None else budget_report(desk.budget)
        return Budgets(budgets=[to_builtins(line) for line in lines if caller.may(line.tenant_id)])

    @router.get("/semantic", summary="Semantic service")
    async def semantic(_caller: Reader) -> dict[str, Any]:
        """Whether meaning is compared, and whether the service is healthy and is asked now."""
        link = desk.link
        if link is None:
            return {"used": False, "reason": "no_service"}
        deadline_ms = desk.settings.semantic.deadline_ms
        return {"used": True, "healthy": await link.healthy(), "asked": link.open, "deadline_ms": deadline_ms}

    return router
