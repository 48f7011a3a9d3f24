"""The walk of a request, written once: credential, look-up, decision, model, write.

Authorisation precedes every look-up: the credential is judged as of the sequences that came with the entry, and
before the entry is so much as opened.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from gateway.asked import Asked
from gateway.errors import ApiError, DatabaseUnavailable, StoreUnavailable
from gateway.flights import Flights, Passenger
from gateway.forward import Forwarder, Job
from gateway.invalidation.replica import Replicas, TenantReplica
from gateway.layers.entry import EntryError, Sealer
from gateway.layers.exact import ExactLayer, Found
from gateway.layers.opened import Opened, OpenedEntries
from gateway.routes import Route, Routes
from gateway.settings import CacheSettings
from gateway.telemetry.metrics import Metrics
from policies.controls import NO_CONTROLS, Controls, partitioning_only
from policies.decide import Bypass, Hit, Lookup, Miss, Stale, judge, route
from policies.keys import CacheKey, KeySpace, Namespace, canonical_request
from policies.types import ChatResponse, Principal, token_counts

_MAX_KEYS_A_BODY = 16
_RESULTS = {Hit: "hit", Stale: "stale", Miss: "miss"}


@dataclass(frozen=True, slots=True)
class Served:
    """A stored answer."""

    principal: Principal
    route: Route
    key: CacheKey
    decision: Hit | Stale
    response: ChatResponse
    source_id: str


@dataclass(frozen=True, slots=True)
class Flying:
    """The model was asked; `passenger` must be left."""

    principal: Principal
    route: Route
    key: CacheKey | None
    decision: Bypass | Miss
    passenger: Passenger
    leads: bool


@dataclass(frozen=True, slots=True)
class Rooms:
    """What the walk passes through; built in wiring."""

    replicas: Replicas
    exact: ExactLayer
    sealer: Sealer
    routes: Routes
    flights: Flights
    forwarder: Forwarder
    metrics: Metrics
    cache: CacheSettings
    now_s: Callable[[], float]


class Pipeline:
    """Answers chat requests from the cheapest layer that may."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._opened = OpenedEntries(rooms.sealer)

    async def authenticate(self, key_digest: bytes) -> Principal:
        """Who owns this key, as of now.

        Raises:
            ApiError: 401 for an unknown or revoked key, 503 when it cannot be judged.
        """
        replica = await self._owner(key_digest)
        await self._look_up(replica, None)
        return self._principal(replica, key_digest)

    async def recognise(self, key_digest: bytes) -> None:
        """Passes a key that is, or was, somebody's; costs nothing for one met before, so it precedes the body.

        Raises:
            ApiError: 401 for a key of nobody, 503 when that cannot be judged.
        """
        await self._owner(key_digest)

    async def answer(self, asked: Asked) -> Served | Flying:
        """A stored answer, or a place on the flight that fetches one.

        Raises:
            ApiError: the credential, the model's name or `only-if-cached` forbids an answer.
        """
        rooms = self._rooms
        replica = await self._owner(asked.key_digest)
        target = rooms.routes.resolve(asked.request.model)
        if target is None:
            await self._look_up(replica, None)
            self._principal(replica, asked.key_digest)
            raise _no_such_model(asked.request.model)
        controls = self._honoured(asked.controls)
        plan = route(asked.request.body, controls, target.mode)
        key = None if isinstance(plan, Bypass) else self._key(replica.tenant_id, target, asked, controls)
        begun = time.perf_counter()
        found = await self._look_up(replica, key)
        principal = self._principal(replica, asked.key_digest)
        decision: Bypass | Hit | Stale | Miss
        entry: Opened | None = None
        if isinstance(plan, Bypass) or key is None:
            decision = plan if isinstance(plan, Bypass) else Bypass("off")
        else:
            decision, entry = self._decide((replica, key, begun), plan, controls, found)
        if isinstance(decision, Hit | Stale) and entry is not None and key is not None:
            if isinstance(decision, Stale) and not controls.only_if_cached and not controls.no_write:
                self._refresh_behind(asked, replica, target, key, controls)
            return Served(principal, target, key, decision, entry.response, entry.response.id)
        assert isinstance(decision, Bypass | Miss)  # noqa: S101  (narrowing: a hit has an entry)
        if controls.only_if_cached:
            raise _only_if_cached()
        job = Job(asked, replica.tenant_id, target, key, controls, replica.purges.seq, replica.purges.prefix_epoch)
        shared = None
        if isinstance(plan, Lookup) and plan.serve and plan.read and plan.write and key is not None:
            shared = (key.digest, replica.purges.seq)
        passenger, leads = rooms.flights.join_or_lead(shared, lambda flight: rooms.forwarder.fly(flight, job))
        rooms.metrics.flight("lead" if leads else "join")
        return Flying(principal, target, key, decision, passenger, leads)

    async def _owner(self, key_digest: bytes) -> TenantReplica:
        try:
            replica = await self._rooms.replicas.owner(key_digest)
        except DatabaseUnavailable:
            raise self._cannot_judge() from None
        if replica is None:
            self._rooms.metrics.auth("unknown")
            raise unauthorised()
        return replica

    def _principal(self, replica: TenantReplica, key_digest: bytes) -> Principal:
        principal = replica.principal(key_digest)
        if principal is None:
            self._rooms.metrics.auth("revoked")
            raise unauthorised()
        self._rooms.metrics.auth("ok")
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

    def _decide(
        self,
        asked_at: tuple[TenantReplica, CacheKey, float],
        plan: Lookup,
        controls: Controls,
        found: Found | None,
    ) -> tuple[Hit | Stale | Miss, Opened | None]:
        rooms = self._rooms
        replica, key, begun = asked_at
        if found is None:
            return Miss("store_unavailable"), None
        if not plan.read:
            rooms.metrics.lookup("exact", "miss", "request", 0.0)
            return Miss("request"), None
        entry, decision = self._judged(replica, key, controls, found)
        result = _RESULTS[type(decision)]
        if not plan.serve:
            result = f"would_{result}"
            if not isinstance(decision, Miss):
                rooms.metrics.would_save("exact", *token_counts(entry.response.usage if entry else None))
                decision = Miss("observe")
        rooms.metrics.lookup("exact", result, decision.reason, time.perf_counter() - begun)
        return decision, entry

    def _judged(
        self, replica: TenantReplica, key: CacheKey, controls: Controls, found: Found
    ) -> tuple[Opened | None, Hit | Stale | Miss]:
        if found.value is None:
            return None, Miss("absent")
        try:
            opened = self._opened.open(found.value, replica.tenant_id, key.digest)
        except EntryError as error:
            self._rooms.metrics.fault("exact", f"entry_{error.reason}")
            self._rooms.exact.drop(replica.tenant_id, key.hex)
            return None, Miss("corrupt")
        purged = None
        if not replica.purges.nothing_since(opened.entry.as_of):
            purged = replica.purges.verdict(opened.entry.made(), opened.entry.as_of)
        return opened, judge(opened.life, purged, controls, self._rooms.now_s())

    def _refresh_behind(
        self, asked: Asked, replica: TenantReplica, target: Route, key: CacheKey, controls: Controls
    ) -> None:
        """Asks the model for a fresh answer without making the client wait; one refresh per key at a time."""
        job = Job(asked, replica.tenant_id, target, key, controls, replica.purges.seq, replica.purges.prefix_epoch)
        shared = ("refresh", key.digest, replica.purges.seq)
        passenger, leads = self._rooms.flights.join_or_lead(shared, lambda f: self._rooms.forwarder.fly(f, job))
        if leads:
            self._rooms.metrics.flight("refresh")
            self._rooms.forwarder.see_off(passenger)
        else:
            passenger.leave()

    def _honoured(self, controls: Controls) -> Controls:
        if not self._rooms.cache.honoured_controls:
            return partitioning_only(controls)
        if controls.no_read and not self._rooms.cache.honour_no_cache:
            return replace(controls, no_read=False, max_age_s=controls.max_age_s or None)
        return controls

    def _key(self, tenant_id: str, target: Route, asked: Asked, controls: Controls) -> CacheKey:
        model = target.primary.effective_model
        plain = controls is NO_CONTROLS  # a client's own words are not remembered: they could be many and long
        named = (tenant_id, model, target.versions)
        known = asked.keys.get(named) if plain else None
        if known is not None:
            return known
        whose = (controls.scope, controls.partition, target.versions, controls.versions)
        space = KeySpace(Namespace(tenant_id, "chat", model, *whose))
        if controls.caller_key is not None:
            return space.of_caller(controls.caller_key)
        key = space.of_request(canonical_request(asked.request.body, self._rooms.cache.ignored_fields))
        if plain:
            if len(asked.keys) >= _MAX_KEYS_A_BODY:
                asked.keys.clear()
            asked.keys[named] = key
        return key


def unauthorised() -> ApiError:
    """401 in the native shape; says nothing of whether the key ever existed."""
    return ApiError(
        401,
        "Incorrect API key provided. Send a Lamina key as `Authorization: Bearer lam_…`; "
        "`lamina keys create --tenant NAME` makes one.",
        code="invalid_api_key",
        headers={"www-authenticate": "Bearer"},
    )


def _no_such_model(name: str) -> ApiError:
    return ApiError(
        404,
        f"The model `{name[:100]}` does not exist. `GET /v1/models` lists those that do.",
        code="model_not_found",
        param="model",
    )


def _only_if_cached() -> ApiError:
    return ApiError(
        504,
        "No stored answer may be served, and the request says only-if-cached.",
        code="only_if_cached",
        kind="timeout",
        headers={"x-should-retry": "false"},
    )
