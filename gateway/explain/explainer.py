"""The walk of a request, told instead of done: the same decisions in the same order, with their reasons."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from msgspec import to_builtins

from gateway.db import TenantRepository
from gateway.db.errors import RecordError
from gateway.errors import ApiError, DatabaseUnavailable, StoreUnavailable
from gateway.explain.entries import Court
from gateway.explain.findings import EntryFinding, Explanation, MeaningFinding
from gateway.explain.meaning import Meaning, Seeking
from gateway.explain.nearest import Nearest
from gateway.explain.sentences import sentence
from gateway.guards import Guards, subject_of
from gateway.invalidation.replica import Replicas, TenantReplica
from gateway.layers.entry import EntryError, Sealer
from gateway.layers.exact import ExactLayer
from gateway.pipeline import honoured, stale_rules
from gateway.protocols.openai_chat import read_request
from gateway.routes import Route, Routes
from gateway.settings import CacheSettings
from policies.controls import NO_CONTROLS, ControlError, Controls, read_controls
from policies.decide import Bypass, Lookup, route
from policies.keys import CacheKey
from policies.request_parts import request_parts
from policies.types import Json

_MAX_N = 128


@dataclass(frozen=True, slots=True)
class Parts:
    """What an explanation looks at; built in wiring.

    Attributes:
        meaning: None where no route compares meaning.
        now_s: seconds since the epoch.
    """

    tenants: TenantRepository
    replicas: Replicas
    exact: ExactLayer
    sealer: Sealer
    routes: Routes
    guards: Guards
    meaning: Meaning | None
    nearest: Nearest
    cache: CacheSettings
    now_s: Callable[[], float]


@dataclass(slots=True)
class _Case:
    """One request on its explained walk."""

    tenant: Mapping[str, str]
    replica: TenantReplica
    route: Route
    body: Json
    controls: Controls
    court: Court
    plan: Lookup
    key: CacheKey
    parts: Mapping[str, bytes] = field(default_factory=dict)


class Explainer:
    """Explains requests; calls no model, writes nothing, and lets nothing be learnt."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def explain(self, tenant: str, asked: object, headers: Mapping[str, str]) -> Explanation:
        """Why this request would, or would not, be answered from the cache now.

        Args:
            tenant: name or id.
            asked: an OpenAI chat body, strictly parsed.
            headers: cache controls that would come with it.

        Raises:
            ApiError: there is no such tenant or model, or the gateway would refuse the request; 503 when the
                database does not answer.
        """
        try:
            return await self._explain(tenant, asked, headers)
        except DatabaseUnavailable:
            raise ApiError(503, "The database does not answer.", code="unavailable", kind="server_error") from None

    async def _explain(self, tenant: str, asked: object, headers: Mapping[str, str]) -> Explanation:
        parts = self._parts
        try:
            owner = await parts.tenants.find(tenant)
        except RecordError as error:
            raise ApiError(404, f"{error}.", code="not_found", param="tenant") from None
        request = read_request(asked, _MAX_N)
        target = parts.routes.resolve(request.model)
        if target is None:
            raise ApiError(
                404, f"No model is called {request.model[:100]!r}.", code="model_not_found", param="model"
            )
        body = request.body
        if isinstance(asked, dict) and "user" in asked and "user" not in body:
            body = {**body, "user": asked["user"]}
        controls = honoured(_controls(headers, asked), parts.cache)
        replica = TenantReplica(owner.tenant_id)
        await parts.replicas.refresh(replica)
        target = target.under(replica.overrides.modes)
        named = {"id": owner.tenant_id, "name": owner.name}
        plan = route(body, controls, target.mode)
        if isinstance(plan, Bypass):
            because, shown = sentence(plan.reason), _shown(controls)
            return Explanation("bypass", None, plan.reason, because, named, _named(target), None, shown)
        key = target.key(owner.tenant_id, controls, body, parts.cache.ignored_fields)
        judged_by = (replica.purges, controls, body, parts.guards, parts.now_s(), stale_rules(parts.cache))
        court = Court(*judged_by, key.hex)
        digests = request_parts(body, target.namespace(owner.tenant_id, controls), parts.cache.ignored_fields)
        return await self._walk(_Case(named, replica, target, body, controls, court, plan, key, digests))

    async def _walk(self, case: _Case) -> Explanation:
        exact = await self._exact(case)
        guards = await self._guards(case)
        meaning: MeaningFinding | None = None
        if exact.decision == "miss" and self._parts.meaning is not None:
            meaning = await self._parts.meaning.find(
                Seeking(case.replica.tenant_id, case.route, case.court, case.key, case.plan.serve, case.plan.read)
            )
        clean = not {verdict["guard"] for verdict in guards} & (self._parts.guards.hidden | {"fault"})
        question = subject_of(case.body).question
        nearest = await self._parts.nearest.find(case.replica.tenant_id, question, case.parts, by_meaning=clean)
        verdict, layer, rule = _verdict(exact, meaning, serving=case.plan.serve)
        return Explanation(
            verdict=verdict,
            layer=layer,
            rule=rule,
            because=sentence(rule) + _but(layer, meaning),
            tenant=case.tenant,
            route=_named(case.route),
            key=case.key.hex,
            controls=_shown(case.controls),
            exact=exact,
            meaning=meaning,
            guards=guards,
            nearest=nearest,
            parts={name: digest.hex() for name, digest in case.parts.items()},
        )

    async def _exact(self, case: _Case) -> EntryFinding:
        if not case.plan.read:
            return EntryFinding("miss", "request")
        tenant_id, key = case.replica.tenant_id, case.key
        try:
            found = await self._parts.exact.look_up(tenant_id, key.hex)
        except StoreUnavailable:
            return EntryFinding("miss", "store_unavailable")
        if found.value is None:
            return EntryFinding("miss", "absent")
        try:
            entry = self._parts.sealer.open(found.value, tenant_id, key.digest)
        except EntryError:
            return EntryFinding("miss", "corrupt")
        if entry.source and "exact" in {case.controls.mode, case.route.mode}:
            return EntryFinding("miss", "copy")
        return await asyncio.to_thread(case.court.judge, entry, len(found.value), by_meaning=False)

    async def _guards(self, case: _Case) -> Sequence[Mapping[str, Any]]:
        """What guards say of the question; of an answer they are asked when there is one."""
        subject = subject_of(case.body, scope=case.controls.scope.kind)
        try:
            verdicts = await asyncio.to_thread(self._parts.guards.verdicts, subject)
        except Exception as error:  # noqa: BLE001  (told: a guard that fails keeps answers from being stored)
            return [{"guard": "fault", "reason": type(error).__name__, "action": "refuse"}]
        return [to_builtins(verdict) for verdict in verdicts]


def _controls(headers: Mapping[str, str], asked: object) -> Controls:
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    try:
        return read_controls(raw, asked if isinstance(asked, dict) else {})
    except ControlError as error:
        raise ApiError(400, f"Bad cache control: {error}.", code="invalid_cache_control") from None


def _shown(controls: Controls) -> dict[str, Any]:
    """The controls that are not as they are without any."""
    usual = asdict(NO_CONTROLS)
    return {name: value for name, value in asdict(controls).items() if value != usual[name]}


def _verdict(exact: EntryFinding, meaning: MeaningFinding | None, *, serving: bool) -> tuple[str, str | None, str]:
    """Verdict, layer and rule, as the walk would come to them."""
    if exact.decision in ("hit", "stale"):
        return (exact.decision if serving else "would_hit"), "exact", exact.reason
    if meaning is not None and meaning.decision in ("hit", "stale", "would_hit"):
        return meaning.decision, "semantic", meaning.reason
    told = meaning if meaning is not None and meaning.asked and exact.reason == "absent" else exact
    return "miss", None, told.reason


def _but(layer: str | None, meaning: MeaningFinding | None) -> str:
    """What an answer by meaning still hangs on."""
    if layer != "semantic" or meaning is None or meaning.served_share >= 1:
        return ""
    explored = f"{1 - meaning.served_share:.0%}"
    return f" Of requests like this one, {explored} go to the model all the same, so that answers are compared."


def _named(target: Route) -> dict[str, Any]:
    return {
        "name": target.name,
        "mode": target.mode,
        "model": target.primary.effective_model,
        "ttl_s": target.ttl_s,
        "versions": dict(target.versions),
    }
