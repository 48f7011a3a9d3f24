"""Builds what the administrator asks."""

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from gateway.budget.book import Budget
from gateway.db import Database, SemanticRows, TenantRepository, TokenRepository
from gateway.db.asked_before import AskedBefore
from gateway.db.once import OnceRepository
from gateway.explain.explainer import Explainer
from gateway.explain.explainer import Parts as ExplainParts
from gateway.explain.meaning import Meaning as ExplainMeaning
from gateway.explain.meaning import Sources, Weigh
from gateway.explain.nearest import Nearest
from gateway.explain.word_lists import WordLists
from gateway.feedback import Feedback
from gateway.guards import Guards
from gateway.http.asgi import Endpoint, Receive, Scope, Send
from gateway.http.ops import Check
from gateway.invalidation.replica import Replicas
from gateway.layers.parts import Parts
from gateway.layers.salts import Salts
from gateway.ledger import LedgerParts
from gateway.pipeline import Pipeline
from gateway.routes import Routes
from gateway.semantic_walk import Budget as WalkBudget
from gateway.telemetry.logs import RequestLog
from gateway.wiring.meaning import Layers, Meaning
from gateway.wiring.purging import open_purging, open_survey
from policies.budget import Decision
from policies.nomination import Candidate

ROUTERS: dict[str, str] = {
    "tenants": "gateway.http.admin.tenants:tenants_router",
    "keys": "gateway.http.admin.keys:keys_router",
    "limits": "gateway.http.admin.limits:limits_router",
    "modes": "gateway.http.admin.modes:modes_router",
    "tokens": "gateway.http.admin.tokens:tokens_router",
    "purges": "gateway.http.admin.purges:purges_router",
    "entries": "gateway.http.admin.entries:entries_router",
    "versions": "gateway.http.admin.versions:versions_router",
    "dependencies": "gateway.http.admin.versions:dependencies_router",
    "policies": "gateway.http.admin.policies:policies_router",
    "stats": "gateway.http.admin.stats:stats_router",
    "audit": "gateway.http.admin.audit:audit_router",
    "feedback": "gateway.http.admin.feedback:feedback_router",
    "erasures": "gateway.http.admin.erasures:erasures_router",
    "explain": "gateway.http.admin.explain:explain_router",
    "learning": "gateway.http.admin.learning:learning_router",
    "ledger": "gateway.http.admin.ledger:ledger_router",
    "feed": "gateway.http.admin.feed:feed_router",
    "series": "gateway.http.admin.series:series_router",
    "doctor": "gateway.http.admin.doctor:doctor_router",
    "engine": "gateway.http.admin.engine:engine_router",
}
"""Areas of the administrator's API: `module:function`, each taking a Desk; imported when a worker is built."""

_ADMIN = "gateway.http.admin"
_DASHBOARD = "/admin/ui"


@dataclass(frozen=True, slots=True)
class Office:
    """What a worker has that the administrator may look at."""

    parts: Parts
    database: Database
    replicas: Replicas
    layers: Layers
    routes: Routes
    guards: Guards
    meaning: Meaning | None
    ledger: LedgerParts
    feedback: Feedback
    salts: Salts
    checks: Mapping[str, Check]
    now_s: Callable[[], float]


def admin_surface(office: Office, pipeline: Pipeline, log: RequestLog) -> Endpoint:
    """Everything below `/admin/`.

    Raises:
        SettingsError: an area does not say which role a route of it takes.
    """
    settings, now_s = office.parts.settings, office.now_s
    key = None if settings.admin_key is None else settings.admin_key.get_secret_value()
    access = _of("access:Access")(key, TokenRepository(office.database), pipeline.authenticate, now_s)
    secret = settings.secret.get_secret_value().encode() if settings.secret else os.urandom(32)
    once = _of("once:Once")(OnceRepository(office.database), secret, office.parts.metrics, now_s)
    desk = _desk(office)
    routers = [_named(spec)(desk) for spec in ROUTERS.values()]
    app = _of("app:admin_app")(routers, version("lamina"))
    surface: Endpoint = _of("surface:AdminSurface")(access, app, once, settings.limits, log)
    entrance = _of("ui.entrance:open_entrance")(access, secret, office.parts.redis, now_s)
    dashboard: Endpoint = _of("ui.surface:open_dashboard")(entrance, (app, once), office.parts, log, now_s)

    async def below_admin(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        ours = path == _DASHBOARD or path.startswith(f"{_DASHBOARD}/")
        await (dashboard if ours else surface)(scope, receive, send)

    return below_admin


def _of(spec: str) -> Any:
    return _named(f"{_ADMIN}.{spec}")


def _named(spec: str) -> Any:
    """What `module:name` is; FastAPI is imported by way of it, and so by nobody who only imports the wiring."""
    module, _, name = spec.partition(":")
    return getattr(importlib.import_module(module), name)


def _desk(office: Office) -> Any:
    parts, layers, meaning = office.parts, office.layers, office.meaning
    budget = None if meaning is None else meaning.walk.budget
    return _of("desk:Desk")(
        settings=parts.settings,
        database=office.database,
        replicas=office.replicas,
        redis=parts.redis,
        exact=layers.exact,
        semantic=layers.semantic,
        link=None if meaning is None else meaning.link,
        rows=parts.rows,
        budget=budget if isinstance(budget, Budget) else None,
        sealer=parts.sealer,
        salts=office.salts,
        routes=office.routes,
        guards=office.guards,
        explainer=_explainer(office),
        ledger=office.ledger,
        feedback=office.feedback,
        purging=open_purging(parts, office.database, office.now_s),
        survey=open_survey(parts, office.database, office.replicas, office.now_s),
        checks=office.checks,
        metrics=parts.metrics,
        now_s=office.now_s,
    )


def _explainer(office: Office) -> Explainer:
    meaning, sealer = office.meaning, office.parts.sealer
    link = None if meaning is None else meaning.link
    nearest = Nearest(SemanticRows(office.database), AskedBefore(office.database), sealer, link)
    return Explainer(
        ExplainParts(
            TenantRepository(office.database),
            office.replicas,
            office.layers.exact,
            sealer,
            office.routes,
            office.guards,
            _meaning(office, meaning),
            nearest,
            office.parts.settings.cache,
            office.now_s,
        )
    )


def _meaning(office: Office, meaning: Meaning | None) -> ExplainMeaning | None:
    layer, settings = office.layers.semantic, office.parts.settings
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
