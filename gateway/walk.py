"""The nouns of the walk: what is known of one request on its way, and the two ways it ends."""

from dataclasses import dataclass

from gateway.asked import Asked, Audit
from gateway.flights import FlightName, Passenger
from gateway.invalidation.replica import TenantReplica
from gateway.job import Job
from gateway.routes import Route
from policies.controls import Controls
from policies.decide import Bypass, Hit, Lookup, Miss, Stale
from policies.keys import CacheKey
from policies.questions import Place
from policies.types import ChatResponse, Principal


@dataclass(frozen=True, slots=True)
class Served:
    """A stored answer.

    Attributes:
        layer: name of the layer that had it.
        source_key_hex: key of the semantic row that it comes from, perhaps by way of a copy; else empty.
        refresh: why a fresh answer is fetched behind this one: `early` or `stale`; empty when none is.
        took_s: how long the model took when it gave the answer.
    """

    principal: Principal
    route: Route
    key: CacheKey
    decision: Hit | Stale
    response: ChatResponse
    source_id: str
    layer: str = "exact"
    source_key_hex: str = ""
    refresh: str = ""
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Flying:
    """The model was asked; `passenger` must be left.

    Attributes:
        instead: what to serve should the model fail before its first byte.
    """

    principal: Principal
    route: Route
    key: CacheKey | None
    decision: Bypass | Miss
    passenger: Passenger
    instead: Served | None = None

    @property
    def leads(self) -> bool:
        """Whether the model was asked for this request; final once the answer has begun."""
        return self.passenger.leads


@dataclass(slots=True)
class Walk:
    """One request on the walk: what is known so far.

    Attributes:
        key: None when nothing may be stored or found.
        place: where the question may be compared by meaning; None where it may not.
        audit: what the model's answer is to be compared with.
        instead: what to serve should the model fail.
        seen: beginning of the stored value that the look-up brought; None when Redis did not answer.
        before: the stored answer to this request that is not served, or is refreshed.
    """

    asked: Asked
    replica: TenantReplica
    principal: Principal
    target: Route
    controls: Controls
    plan: Bypass | Lookup
    key: CacheKey | None
    place: Place | None = None
    audit: Audit | None = None
    instead: Served | None = None
    seen: bytes | None = None
    before: ChatResponse | None = None

    def job(self) -> Job:
        """The model call of this request, as of now."""
        purges = self.replica.purges
        return Job(
            self.asked,
            self.replica.tenant_id,
            self.target,
            self.key,
            self.controls,
            purges.seq,
            purges.prefix_epoch,
            self.place,
            self.audit,
            before=self.before,
            known=self.replica.known,
        )

    def shared(self) -> FlightName | None:
        """Under what others may join this request's model call; None when nobody may."""
        plan = self.plan
        if isinstance(plan, Lookup) and plan.serve and plan.read and plan.write and self.key is not None:
            return self.flight_name(self.key)
        return None

    def flight_name(self, key: CacheKey, kind: str = "f") -> FlightName:
        """What a model call of this request is called."""
        return FlightName(self.replica.tenant_id, key.hex, self.replica.purges.seq, kind)
