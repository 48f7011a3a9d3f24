"""Builds what the administrator asks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import to_builtins

from gateway.budget.book import Budget
from gateway.budget.report import budget_report
from gateway.db import Database, SemanticRows, TenantRepository
from gateway.db.asked_before import AskedBefore
from gateway.explain.explainer import Explainer
from gateway.explain.explainer import Parts as ExplainParts
from gateway.explain.meaning import Meaning as ExplainMeaning
from gateway.explain.meaning import Sources, Weigh
from gateway.explain.nearest import Nearest
from gateway.explain.word_lists import WordLists
from gateway.guards import Guards
from gateway.http.admin.access import Access
from gateway.http.admin.explain import ExplainWork
from gateway.http.admin.surface import AdminRoute, AdminSurface
from gateway.invalidation.replica import Replicas
from gateway.layers.entry import Sealer
from gateway.pipeline import Pipeline
from gateway.routes import Routes
from gateway.semantic_walk import Budget as WalkBudget
from gateway.settings import Settings
from gateway.telemetry.logs import RequestLog
from gateway.wiring.meaning import Layers, Meaning
from policies.budget import Decision
from policies.nomination import Candidate
from policies.types import Json


@dataclass(frozen=True, slots=True)
class Office:
    """What a worker has that the administrator may look at."""

    settings: Settings
    database: Database
    replicas: Replicas
    layers: Layers
    sealer: Sealer
    routes: Routes
    guards: Guards
    meaning: Meaning | None
    now_s: Callable[[], float]


def admin_surface(office: Office, pipeline: Pipeline, log: RequestLog) -> AdminSurface:
    """Everything below `/admin/`."""
    key = office.settings.admin_key
    access = Access(None if key is None else key.get_secret_value(), pipeline.authenticate)
    routes = {
        "/admin/v1/explain": AdminRoute("POST", ExplainWork(_explainer(office))),
        "/admin/v1/budget": AdminRoute("GET", _budget_work(office)),
        "/admin/v1/semantic": AdminRoute("GET", _semantic_work(office)),
    }
    return AdminSurface(access, routes, office.settings.limits, log)


def _explainer(office: Office) -> Explainer:
    meaning, rows = office.meaning, SemanticRows(office.database)
    link = None if meaning is None else meaning.link
    nearest = Nearest(rows, AskedBefore(office.database), office.sealer, link)
    return Explainer(
        ExplainParts(
            TenantRepository(office.database),
            office.replicas,
            office.layers.exact,
            office.sealer,
            office.routes,
            office.guards,
            _meaning(office, meaning),
            nearest,
            office.settings.cache,
            office.now_s,
        )
    )


def _meaning(office: Office, meaning: Meaning | None) -> ExplainMeaning | None:
    layer, settings = office.layers.semantic, office.settings
    if meaning is None or layer is None:
        return None
    weigh = _weigher(meaning.walk.budget)
    return ExplainMeaning(
        Sources(meaning.link, layer, meaning.rows, weigh, WordLists(), settings.cache, settings.semantic)
    )


def _weigher(budget: WalkBudget) -> Weigh:
    """How to ask a budget without being counted; one that learns nothing may simply be asked."""

    def weigh(
        tenant_id: str, route: str, candidate: Candidate, models: str, serving: bool
    ) -> tuple[Decision, Mapping[str, float | str]]:
        if isinstance(budget, Budget):
            return budget.weigh(tenant_id, route, candidate, models, serving=serving)
        return budget.decide(tenant_id, route, candidate, models, serving=serving), {}

    return weigh


def _budget_work(office: Office) -> Callable[[Json], Any]:
    async def work(_body: Json) -> Mapping[str, Any]:
        budget = None if office.meaning is None else office.meaning.walk.budget
        lines = budget_report(budget) if isinstance(budget, Budget) else []
        return {"budgets": to_builtins(lines)}

    return work


def _semantic_work(office: Office) -> Callable[[Json], Any]:
    async def work(_body: Json) -> Mapping[str, Any]:
        meaning = office.meaning
        if meaning is None:
            return {"used": False, "reason": "no_service"}
        healthy = await meaning.link.healthy()
        return {
            "used": True,
            "healthy": healthy,
            "asked": meaning.link.open,
            "deadline_ms": meaning.settings.deadline_ms,
        }

    return work
