"""Coalescing over all workers: this worker's flight leads a call, or follows that of another worker.

Only a flight of this worker takes part, so any number of requests that ride on it cost nothing more. Whatever is
wrong with Redis, the flight goes on alone: one deadline and a counter, never a request.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from gateway.coalescing.following import Follower, Lost, TooLarge
from gateway.coalescing.frames import Cipher, FrameError
from gateway.coalescing.leading import Leading, Outlets
from gateway.coalescing.leases import MARK_BYTES, Found, HeldBy, Lease, Leases, new_token
from gateway.coalescing.post import Post
from gateway.coalescing.worker import Shared, fly_here, handed_over
from gateway.errors import ApiError, StoreUnavailable, UpstreamError
from gateway.flights import Elsewhere, Failure, Flight, FlightName, Landing
from gateway.forward import Forwarder
from gateway.job import Job
from gateway.layers.entry import Entry, EntryError, Sealer
from gateway.telemetry.metrics import Metrics
from policies.controls import Controls
from policies.decide import Hit, Life, Store, judge
from policies.leases import Alone, Ask, Terms, hands_over

_MOST_ROUNDS = 64
"""So often at most a flight asks who leads before it goes alone."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What coalescing over all workers is built from.

    Attributes:
        secret: the master secret.
        policy: version of the guards of today.
        terms: of leases.
        answer_bytes: larger answers are not relayed.
        now_s: seconds since the epoch.
    """

    forwarder: Forwarder
    leases: Leases
    metrics: Metrics
    sealer: Sealer
    secret: bytes
    policy: str
    terms: Terms
    answer_bytes: int
    now_s: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Onward:
    """What a follower knows when its leader is gone: calls that have failed, and who leads now if it asked."""

    tries: int = 0
    place: Lease | HeldBy | Found | None = None


class Everywhere:
    """Coalesces over all workers that share a Redis; see Coalescer."""

    def __init__(self, parts: Parts, post: Post) -> None:
        self._parts = parts
        self._post = post
        self._terms = parts.terms
        self._outlets = Outlets(parts.answer_bytes, parts.leases.send, post.fault)

    async def close(self) -> None:
        """Stops listening."""
        await self._post.close()

    async def fly(self, flight: Flight, shared: Shared) -> None:
        """See Coalescer."""
        tries, seen = 0, shared.seen
        place = await self._join(shared.name, seen)
        for _ in range(_MOST_ROUNDS):
            if isinstance(place, Found):
                if self._land_stored(flight, shared, place.value):
                    return
                seen = place.value[:MARK_BYTES]
            elif isinstance(place, Lease):
                tries += 1
                if await self._lead(flight, shared, place, tries):
                    return
            elif isinstance(place, HeldBy):
                onward = await self._follow(flight, shared, place, seen)
                if onward is None:
                    return
                tries = max(tries, onward.tries)
                if onward.place is not None:
                    place = onward.place
                    continue
            else:
                break
            place = await self._join(shared.name, seen)
        await self._alone(flight, shared.job, tries)

    async def refresh(self, flight: Flight, shared: Shared) -> None:
        """See Coalescer."""
        place = await self._join(shared.name, shared.seen)
        if isinstance(place, Lease):
            leading = self._leading(place, shared.name, flight)
            try:
                await self._parts.forwarder.fly(flight, replace(shared.job, shelf=place))
            finally:
                leading.gone()
                self._post.over(leading)
        elif place is None:
            await self._parts.forwarder.fly(flight, shared.job)
        else:
            if isinstance(place, HeldBy):
                self._post.decline(place)
            flight.fail(Elsewhere())

    async def _join(self, name: FlightName, seen: bytes | None, have: int = 0) -> Lease | HeldBy | Found | None:
        """None when Redis does not say, and why is counted."""
        if seen is None or not self._post.listens():
            return None
        token = new_token()
        self._post.expect(token)
        place: Lease | HeldBy | Found | None = None
        try:
            place = await self._parts.leases.join(name, token, seen, have)
        except StoreUnavailable:
            self._post.fault("store")
        finally:
            if not isinstance(place, Lease):
                self._post.expect_no_more(token)
        return place

    def _land_stored(self, flight: Flight, shared: Shared, value: bytes) -> bool:
        """Lands with the answer that was stored between the look-up and now, where these requests may have it."""
        name = shared.name
        try:
            entry = self._parts.sealer.open(value, name.tenant_id, bytes.fromhex(name.digest_hex))
        except EntryError as error:
            self._parts.metrics.fault("exact", f"entry_{error.reason}")
            return False
        left_s = self._left_s(entry, name, shared.job.controls)
        if left_s <= 0:
            return False
        self._parts.metrics.flight("found")
        _anew(flight, relayed=True)  # it has no chunks: who has had some of a lost leader's has not had the rest
        flight.land(Landing(entry.response(), Store(left_s)))
        return True

    def _left_s(self, entry: Entry, name: FlightName, controls: Controls) -> float:
        """Life left of an entry that is as good as the answer to a call made now; 0 of any other.

        No purge known to these requests can name it, and today's guards have judged it. Whatever those ask for who
        have joined, it is younger than a lease, and no copy of an answer to another question.
        """
        if entry.as_of < name.purge_seq or entry.policy != self._parts.policy or entry.source:
            return 0.0
        now_s = self._parts.now_s()
        if abs(now_s - entry.created_s) >= self._terms.lease_s:
            return 0.0
        decision = judge(Life(entry.created_s, entry.ttl_s), None, controls, now_s)
        return decision.ttl_s if isinstance(decision, Hit) else 0.0

    def _cipher(self, name: FlightName, token: str) -> Cipher:
        return Cipher(self._parts.secret, name.tenant_id, name.lease_key, token)

    def _leading(self, lease: Lease, name: FlightName, flight: Flight) -> Leading:
        leading = Leading(lease, self._cipher(name, lease.token), flight, self._terms, self._outlets)
        self._post.lead(leading)
        return leading

    async def _lead(self, flight: Flight, shared: Shared, lease: Lease, tries: int) -> bool:
        """Makes the call; False when it failed and is to be made again for those who wait."""
        _anew(flight, relayed=False)
        leading = self._leading(lease, shared.name, flight)
        try:
            landing = await self._parts.forwarder.call(flight, replace(shared.job, shelf=lease))
        except (UpstreamError, ApiError) as error:
            again = handed_over(flight, error, tries)
            if not again:
                flight.fail(error)
            leading.failed(error, tries)
            return not again
        except asyncio.CancelledError:
            leading.gone()
            raise
        else:
            flight.land(landing)
            leading.landed(landing)
            return True
        finally:
            self._post.over(leading)

    async def _follow(self, flight: Flight, shared: Shared, held: HeldBy, seen: bytes | None) -> Onward | None:
        """Follows a leader; None when the flight has ended."""
        _anew(flight, relayed=True)
        self._parts.metrics.flight("follow")
        follower = Follower(held, self._cipher(shared.name, held.token), flight, self._terms)
        self._post.follow(follower)
        try:
            onward = await self._followed(flight, shared, follower, seen)
        except Lost:
            self._parts.metrics.flight("lost")
            return Onward()
        except TooLarge:
            self._post.fault("too_large")
            await self._alone(flight, shared.job)
            return None
        else:
            return onward
        finally:
            self._post.follow_no_more(follower)

    async def _followed(
        self, flight: Flight, shared: Shared, follower: Follower, seen: bytes | None
    ) -> Onward | None:
        while True:
            if follower.due_to_renew():
                self._post.want(follower)
            try:
                word = await follower.next()
            except FrameError as error:
                self._post.fault(f"frame_{error}")
                continue
            if isinstance(word, Landing):
                flight.land(word)
                return None
            if isinstance(word, UpstreamError | ApiError):
                return _failed(flight, word, follower.tries)
            if isinstance(word, Alone):
                self._post.fault(word.reason)
                await self._alone(flight, shared.job)
                return None
            if isinstance(word, Ask):
                place = await self._asked(shared.name, follower, word, seen)
                if place is not None:
                    self._parts.metrics.flight("lost")
                    return Onward(place=place)

    async def _asked(
        self, name: FlightName, follower: Follower, ask: Ask, seen: bytes | None
    ) -> Lease | HeldBy | Found | None:
        """Who leads now; None when it is the leader that is believed, or Redis does not say."""
        if ask.reason == "gap":
            self._post.fault("gap")
            self._post.want(follower)
            return None
        place = await self._join(name, seen, follower.have)
        if isinstance(place, HeldBy) and place.token == follower.held.token:
            follower.found_again(place)
            return None
        if place is None:
            follower.found_again(follower.held)
        return place

    async def _alone(self, flight: Flight, job: Job, tries: int = 0) -> None:
        """Makes the call for this worker alone."""
        _anew(flight, relayed=False)
        await fly_here(self._parts.forwarder, flight, job, tries)


def _anew(flight: Flight, *, relayed: bool) -> None:
    """Begins a new take where there is something of an older one."""
    if flight.chunks or flight.target is not None:
        flight.restart()
    flight.relayed = relayed


def _failed(flight: Flight, failure: Failure, tries: int) -> Onward | None:
    """After the leader's call failed: it is made again for those who wait, or all are told."""
    again = isinstance(failure, UpstreamError) and hands_over(failure.reason, failure.status, tries)
    if again and flight.target is None:
        return Onward(tries)
    flight.fail(failure)
    return None
