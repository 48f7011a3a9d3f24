"""The walk of a request, written once: credential, look-up, decision, model, write.

Authorisation precedes every look-up: the credential is judged as of the sequences that came with the entry, and
before the entry is so much as opened.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from gateway.asked import Asked
from gateway.coalescing import MARK_BYTES, Coalescer, Shared, works
from gateway.errors import ApiError, DatabaseUnavailable, StoreUnavailable
from gateway.exact_walk import ExactWalk
from gateway.flights import Flight, FlightName, Flights
from gateway.forward import Forwarder
from gateway.guards import Guards
from gateway.invalidation.replica import Replicas, TenantReplica
from gateway.layers.entry import Sealer
from gateway.layers.exact import ExactLayer, Found
from gateway.layers.opened import Opened
from gateway.limits import Asking, Limiter
from gateway.refusals import no_such_class, no_such_model, only_if_cached
from gateway.routes import Route, Routes
from gateway.semantic_walk import SemanticWalk, Sought
from gateway.settings import CacheSettings
from gateway.telemetry.metrics import Metrics
from gateway.walk import Flying, Served, Walk
from policies.controls import NO_CONTROLS, Controls, partitioning_only
from policies.decide import Bypass, Hit, Lookup, Miss, Stale, route
from policies.freshness import StaleRules
from policies.keys import CacheKey
from policies.limits import NO_LIMITS
from policies.types import ChatResponse, Principal

_MAX_KEYS_A_BODY = 16


@dataclass(frozen=True, slots=True)
class Rooms:
    """What the walk passes through; built in wiring.

    Attributes:
        semantic: None where no route compares meaning.
    """

    replicas: Replicas
    exact: ExactLayer
    sealer: Sealer
    routes: Routes
    flights: Flights
    coalescer: Coalescer
    forwarder: Forwarder
    guards: Guards
    limiter: Limiter
    semantic: SemanticWalk | None
    metrics: Metrics
    cache: CacheSettings
    now_s: Callable[[], float]


class Pipeline:
    """Answers chat requests from the cheapest layer that may."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        cache = rooms.cache
        rules = stale_rules(cache)
        self._exact = ExactWalk(
            rooms.exact, rooms.sealer, rooms.guards, rooms.metrics, rules=rules, now_s=rooms.now_s
        )

    async def authenticate(self, key_digest: bytes) -> Principal:
        """Who owns this key, as of now.

        Raises:
            ApiError: 401 for an unknown or revoked key, 503 when it cannot be judged.
        """
        begun = time.perf_counter()
        replica = await self._owner(key_digest)
        await self._look_up(replica, None)
        return self._principal(replica, key_digest, begun)

    async def recognise(self, key_digest: bytes) -> None:
        """Passes a key that is, or was, somebody's; costs nothing for one met before, so it precedes the body.

        Raises:
            ApiError: 401 for a key of nobody, 503 when that cannot be judged.
        """
        await self._owner(key_digest)

    async def answer(self, asked: Asked) -> Served | Flying:
        """A stored answer, or a place on the flight that fetches one.

        Raises:
            ApiError: the credential, a limit, the model's name or `only-if-cached` forbids an answer.
        """
        came = time.perf_counter()
        replica = await self._owner(asked.key_digest)
        asking = self._counted(replica, asked)
        controls = honoured(asked.controls, self._rooms.cache)
        overrides = None
        while overrides is not replica.overrides:  # a change that came with the look-up is obeyed at once
            overrides = replica.overrides
            found_route = self._rooms.routes.resolve(asked.request.model)
            if found_route is None:
                await self._look_up(replica, None)
                self._principal(replica, asked.key_digest, came)
                raise no_such_model(asked.request.model)
            target = found_route.under(overrides.modes)
            plan = route(asked.request.body, controls, target.mode)
            key = None if isinstance(plan, Bypass) else self._key(replica.tenant_id, target, asked, controls)
            begun = time.perf_counter()
            found = await self._look_up(replica, key)
        principal = self._principal(replica, asked.key_digest, came)
        await self._admit(replica, asked, asking)
        walk = Walk(asked, replica, principal, target, controls, plan, key)
        walk.seen = None if found is None else (found.value or b"")[:MARK_BYTES]
        if isinstance(plan, Bypass) or key is None:
            return self._fly(walk, plan if isinstance(plan, Bypass) else Bypass("off"))
        decision, entry = await self._exact.decide(walk, key, found, begun)
        if entry is not None and not isinstance(decision, Miss):
            return self._serve(walk, key, decision, entry)
        assert isinstance(decision, Miss)  # noqa: S101  (narrowing: a hit has an entry)
        walk.before = None if entry is None else _to_compare(walk, entry)
        if entry is not None and plan.serve:
            excuse = await self._exact.excuse(walk, key, entry, decision)
            walk.instead = None if excuse is None else self._served(walk, key, excuse, entry)
        return await self._by_meaning(walk, key, decision)

    def ended(self, request_id: str) -> None:
        """A request has been answered in full, or will not be."""
        self._rooms.limiter.leave(request_id)

    def spent(self, tenant_id: str, tokens: int) -> None:
        """A model has processed tokens for a tenant."""
        self._rooms.limiter.spent(tenant_id, tokens)

    def _counted(self, replica: TenantReplica, asked: Asked) -> Asking | None:
        """Has a request of a limited tenant counted in the round trip of the look-up; one of a known key only."""
        limits = replica.overrides.limits
        if limits is NO_LIMITS or replica.principal(asked.key_digest) is None:
            return None
        return self._rooms.limiter.ask(replica.tenant_id, limits, asked.request_id)

    async def _admit(self, replica: TenantReplica, asked: Asked, asking: Asking | None) -> None:
        limits = replica.overrides.limits
        if limits is not NO_LIMITS:
            counted = asking or self._rooms.limiter.ask(replica.tenant_id, limits, asked.request_id)
            await self._rooms.limiter.admit(counted, limits, asked.request_id)

    async def _by_meaning(self, walk: Walk, key: CacheKey, decision: Miss) -> Served | Flying:
        """After an exact miss: an answer to the same question put otherwise, or the model's."""
        semantic, plan = self._rooms.semantic, walk.plan
        shared = self._shared(walk)
        joins = shared is not None and self._rooms.flights.running(shared)
        if semantic is None or joins or not isinstance(plan, Lookup):
            return self._fly(walk, decision)
        namespace = walk.target.namespace(walk.replica.tenant_id, walk.controls)
        walk.place = await semantic.place(walk, namespace)
        if walk.place is None or not plan.read or decision.reason == "observe":
            return self._fly(walk, decision)
        sought = await semantic.seek(walk, walk.place)
        if sought.found is not None and not isinstance(sought.decision, Miss):
            if plan.write and isinstance(sought.decision, Hit):
                semantic.copy(walk, key, sought.found)
            return self._serve(walk, key, sought.decision, sought.found.opened, sought)
        walk.audit = sought.audit
        telling = plan.serve or sought.decision.reason == "observe"
        told = sought.decision if telling and decision.reason == "absent" else decision
        assert isinstance(told, Miss)  # noqa: S101  (narrowing: a hit has a row)
        return self._fly(walk, told)

    def _serve(
        self,
        walk: Walk,
        key: CacheKey,
        decision: Hit | Stale,
        opened: Opened,
        sought: Sought | None = None,
    ) -> Served:
        refresh = self._refreshes(walk, decision, opened, exact=sought is None)
        if refresh:
            walk.before = _to_compare(walk, opened) if sought is None else None
            self._refresh_behind(walk, key, refresh)
        return self._served(walk, key, decision, opened, sought, refresh)

    def _refreshes(self, walk: Walk, decision: Hit | Stale, opened: Opened, *, exact: bool) -> str:
        """Why a fresh answer is fetched behind this one; empty when none is."""
        if walk.controls.only_if_cached or walk.controls.no_write:
            return ""
        if isinstance(decision, Stale):
            return "stale"
        return "early" if exact and self._exact.refreshes_early(opened, decision) else ""

    def _served(  # noqa: PLR0917  (what is served, in its parts)
        self,
        walk: Walk,
        key: CacheKey,
        decision: Hit | Stale,
        opened: Opened,
        sought: Sought | None = None,
        refresh: str = "",
    ) -> Served:
        source = opened.entry.source if sought is None or sought.found is None else sought.found.key
        layer = "exact" if sought is None else "semantic"
        answer = opened.response
        whose = (walk.principal, walk.target, key, decision)
        return Served(*whose, answer, answer.id, layer, source.hex(), refresh, opened.entry.took_s)

    def _fly(self, walk: Walk, decision: Bypass | Miss) -> Flying:
        rooms = self._rooms
        if walk.controls.only_if_cached:
            raise only_if_cached()
        job, name = walk.job(), self._shared(walk)
        together = None if name is None else Shared(job, name, walk.seen)
        work = works(rooms.coalescer, rooms.forwarder, job, together)
        passenger, leads = rooms.flights.join_or_lead(name, *work)
        rooms.metrics.flight("lead" if leads else "join")
        return Flying(walk.principal, walk.target, walk.key, decision, passenger, walk.instead)

    def _shared(self, walk: Walk) -> FlightName | None:
        """Under what others may join this request's model call; None when nobody may."""
        return None if self._rooms.cache.coalescing == "off" else walk.shared()

    async def _owner(self, key_digest: bytes) -> TenantReplica:
        try:
            replica = await self._rooms.replicas.owner(key_digest)
        except DatabaseUnavailable:
            raise self._cannot_judge() from None
        if replica is None:
            self._rooms.metrics.auth("unknown")
            raise unauthorised()
        return replica

    def _principal(self, replica: TenantReplica, key_digest: bytes, begun: float) -> Principal:
        principal = replica.principal(key_digest)
        latency_s = time.perf_counter() - begun
        if principal is None:
            self._rooms.metrics.auth("revoked", latency_s)
            raise unauthorised()
        self._rooms.metrics.auth("ok", latency_s)
        return principal

    def _cannot_judge(self) -> ApiError:
        self._rooms.metrics.auth("unavailable")
        self._rooms.metrics.fault("db", "unavailable")
        return ApiError(
            503,
            "API keys cannot be checked right now: the database does not answer. Try again shortly.",
            code="auth_unavailable",
            kind="server_error",
            headers={"retry-after": "1"},
        )

    async def _look_up(self, replica: TenantReplica, key: CacheKey | None) -> Found | None:
        """One round trip to Redis, then the replica made current; None when Redis does not answer."""
        rooms = self._rooms
        begun = time.perf_counter()
        try:
            found = await rooms.exact.look_up(replica.tenant_id, None if key is None else key.hex)
        except StoreUnavailable:
            found = None
            if key is not None:
                rooms.metrics.lookup("exact", "unavailable", "store", time.perf_counter() - begun)
        try:
            if found is None:
                await rooms.replicas.refresh(replica)
            elif not replica.matches(found.auth_seq, found.purge_seq, found.epoch):
                await rooms.replicas.settle(replica, found.auth_seq, found.purge_seq, found.epoch)
        except DatabaseUnavailable:
            raise self._cannot_judge() from None
        return found

    def _refresh_behind(self, walk: Walk, key: CacheKey, why: str) -> None:
        """Asks the model for a fresh answer without making the client wait; one refresh per key at a time."""
        name = walk.flight_name(key, "r")

        async def work(flight: Flight) -> None:
            if walk.place is None and self._rooms.semantic is not None:
                namespace = walk.target.namespace(walk.replica.tenant_id, walk.controls)
                walk.place = await self._rooms.semantic.place(walk, namespace)
            await self._rooms.coalescer.refresh(flight, Shared(walk.job(), name, walk.seen))

        passenger, leads = self._rooms.flights.join_or_lead(name, work)
        if leads:
            self._rooms.metrics.flight("refresh_early" if why == "early" else "refresh")
            self._rooms.forwarder.refreshes.see_off(passenger)
        else:
            passenger.leave()

    def _key(self, tenant_id: str, target: Route, asked: Asked, controls: Controls) -> CacheKey:
        model = target.primary.effective_model
        plain = controls is NO_CONTROLS  # a client's own words are not remembered: they could be many and long
        named = (tenant_id, model, target.versions)
        known = asked.keys.get(named) if plain else None
        if known is not None:
            return known
        key = target.key(tenant_id, controls, asked.request.body, self._rooms.cache.ignored_fields)
        if plain:
            if len(asked.keys) >= _MAX_KEYS_A_BODY:
                asked.keys.clear()
            asked.keys[named] = key
        return key


def stale_rules(cache: CacheSettings) -> StaleRules:
    """What the operator allows past an entry's life."""
    return StaleRules(cache.stale_while_revalidate_s, cache.stale_if_error_s, cache.early_refresh_beta)


def honoured(controls: Controls, cache: CacheSettings) -> Controls:
    """The controls as far as the operator lets requests have a say.

    Raises:
        ApiError: 400 for a class of lives that there is not.
    """
    if not cache.honoured_controls:
        return partitioning_only(controls)
    if controls.ttl_class is not None and controls.ttl_class not in cache.ttl_classes:
        raise no_such_class(cache)
    if controls.no_read and not cache.honour_no_cache:
        return replace(controls, no_read=False, max_age_s=controls.max_age_s or None)
    return controls


def _to_compare(walk: Walk, opened: Opened) -> ChatResponse | None:
    """The stored answer, for a fresh one to be compared with; None once a purge has named it.

    A fresh answer is expected then, and where the purge is change detection's own, two neighbours whose answers
    always differ would make each other stale for ever.
    """
    entry = opened.entry
    purged = walk.replica.purges.verdict(entry.made(), entry.as_of)
    return opened.response if purged is None else None


def unauthorised() -> ApiError:
    """401 in the native shape; says nothing of whether the key ever existed."""
    return ApiError(
        401,
        "Incorrect API key provided. Send a Lamina key as `Authorization: Bearer lam_…`; "
        "`lamina keys create --tenant NAME` makes one.",
        code="invalid_api_key",
        headers={"www-authenticate": "Bearer"},
    )
