"""One model call per key among many workers: who leads, whom to believe, when to ask again. Pure.

A worker that leads holds a lease: a token of its own, kept in Redis for a short time, renewed by beats. One that
finds the lease held follows: it hears what the leader relays. Every time is of a monotonic clock.
Source: leases as in Nishtala et al., "Scaling Memcache at Facebook" (NSDI 2013), section 3.2.1.
"""

from dataclasses import dataclass
from typing import Literal

import msgspec

from policies.decide import Discard, Store

MOST_TRIES = 2
"""Model calls that a burst of requests for one key may fail, one after another, before all are told."""

_BEATS_A_LEASE = 3
_SILENT_BEATS = 2
_DEAF_LEASES = 2
_TOO_MANY = 429
_SERVER_ERROR = 500
_TIMEOUT = 408

_FINE_TO_SHARE = frozenset({"store_unavailable", "size", "fallback", "no_key", "guard_timeout", "guard_fault"})
"""Reasons for not storing an answer that say nothing against giving it to those who wait for it."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How long a lease lasts without a beat."""

    lease_s: float

    @property
    def beat_s(self) -> float:
        """How often the leader renews its lease and, where somebody listens, says that it lives."""
        return self.lease_s / _BEATS_A_LEASE

    @property
    def silence_s(self) -> float:
        """After so long without a word a follower asks who holds the lease."""
        return self.beat_s * _SILENT_BEATS

    @property
    def deaf_s(self) -> float:
        """After so long without a word of a leader that holds its lease, a follower asks the model itself."""
        return self.lease_s * _DEAF_LEASES

    @property
    def seat_s(self) -> float:
        """So long a leader goes on for a follower that says nothing more."""
        return self.lease_s * _DEAF_LEASES


class Held(msgspec.Struct, frozen=True):
    """The leader's own view of its lease.

    Attributes:
        confirmed_s: when the request was sent whose confirmation came last.
        lost: Redis has said that another holds the lease, or nobody.
    """

    confirmed_s: float
    lost: bool = False


def confirmed(held: Held, sent_s: float, *, kept: bool) -> Held:
    """After Redis has answered a beat, or anything else that renews, sent at this time.

    What was lost stays lost: whoever took over may be done already, and the word of the one before is over.
    """
    if held.lost or not kept:
        return Held(held.confirmed_s, lost=True)
    return Held(max(held.confirmed_s, sent_s))


def holds(held: Held, terms: Terms, now_s: float) -> bool:
    """Whether the leader may believe that it leads; after a pause it may not, before it has asked."""
    return not held.lost and now_s - held.confirmed_s < terms.lease_s


class Following(msgspec.Struct, frozen=True):
    """What a follower knows.

    Attributes:
        token: of the leader that it believes.
        heard_s: when it last heard of it, or began to listen.
        ask_s: when it asks next who leads, should it hear nothing.
        chunks: chunks of the answer that it has.
    """

    token: str
    heard_s: float
    ask_s: float
    chunks: int = 0


class Ask(msgspec.Struct, frozen=True):
    """Asks Redis who leads, and the leader for what is missing."""

    reason: Literal["silence", "gap"]


class Alone(msgspec.Struct, frozen=True):
    """Asks the model itself."""

    reason: Literal["deaf"]


class Wait(msgspec.Struct, frozen=True):
    """Listens until then."""

    until_s: float


class Take(msgspec.Struct, frozen=True):
    """Takes what was relayed, but for the first so many chunks, which it has."""

    following: Following
    known: int


class Ignore(msgspec.Struct, frozen=True):
    """Not of the leader that is believed."""


def follow(token: str, left_s: float, terms: Terms, now_s: float, before: Following | None = None) -> Following:
    """Begins, or goes on, to follow whoever holds the lease.

    Args:
        token: the holder's.
        left_s: what the lease has left; if no beat comes, it is free then.
        terms: of the lease.
        now_s: the time.
        before: what was known when Redis was asked; what it heard of another leader counts for nothing.
    """
    ask_s = now_s + min(max(left_s, 0.0) + _AFTER_S, terms.silence_s)
    if before is None or before.token != token:
        return Following(token, now_s, ask_s)
    return Following(token, before.heard_s, ask_s, before.chunks)


_AFTER_S = 0.005
"""A lease is looked at again just after its end, not just before it."""


def heard(following: Following, token: str, position: int, count: int) -> Take | Ask | Ignore:
    """What to do with what was relayed: chunks from this position on; none is a beat.

    Args:
        following: what is known.
        token: whose word it is, proven.
        position: number of the first chunk.
        count: how many chunks.
    """
    if token != following.token:
        return Ignore()
    if position > following.chunks:
        return Ask("gap")
    known = min(following.chunks - position, count)
    return Take(following, known)


def taken(following: Following, more: int, terms: Terms, now_s: float) -> Following:
    """After so many new chunks were taken."""
    return Following(following.token, now_s, now_s + terms.silence_s, following.chunks + more)


def next_step(following: Following, terms: Terms, now_s: float) -> Wait | Ask | Alone:
    """What to do when nothing is heard now."""
    if now_s - following.heard_s >= terms.deaf_s:
        return Alone("deaf")
    if now_s >= following.ask_s:
        return Ask("silence")
    return Wait(following.ask_s)


def shareable(decision: Store | Discard) -> bool:
    """Whether an answer may be given to others who wait for it; else each of them asks alone, at once."""
    return isinstance(decision, Store) or decision.reason in _FINE_TO_SHARE


def hands_over(reason: str, status: int, tries: int) -> bool:
    """Whether those who wait for a call that failed get another, or are told what its leader is told.

    Not when the request itself was at fault, since it is theirs too, not when the model is asked too much or takes
    nobody's credentials, and not when they have waited for as long as a call may take.

    Args:
        reason: see UpstreamError.
        status: for the client.
        tries: calls so far, this one included.
    """
    if tries >= MOST_TRIES or status == _TOO_MANY or reason in {"timeout", "credentials"}:
        return False
    return reason != "status" or status >= _SERVER_ERROR or status == _TIMEOUT
