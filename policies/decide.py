"""The decisions of one request, each a value with a reason (after RFC 9111; skeleton after a state machine).

Bypass | Lookup → Hit | Stale | Miss → Store | Discard. No I/O, no clock: `now_s` is an argument.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from policies.controls import Controls
from policies.gate import refuse_write
from policies.purges import PurgeMode
from policies.types import ChatResponse, Json


class Bypass(msgspec.Struct, frozen=True):
    """No layer is asked; the model answers and nothing is stored."""

    reason: str


class Lookup(msgspec.Struct, frozen=True):
    """Layers may be asked.

    Attributes:
        serve: false in observe mode: look up and count, serve nothing.
        read, write: what the request allows.
    """

    serve: bool
    read: bool
    write: bool


class Life(msgspec.Struct, frozen=True):
    """When an entry was made and how long it lives, in seconds."""

    created_s: float
    ttl_s: float


class Hit(msgspec.Struct, frozen=True):
    """Serve the entry; `age_s` since it was made, `ttl_s` left."""

    age_s: float
    ttl_s: float
    reason: str = "exact"


class Stale(msgspec.Struct, frozen=True):
    """Serve the entry past its life, or softly purged, since the client accepts that; `ttl_s` is at most 0."""

    age_s: float
    ttl_s: float
    reason: str


class Miss(msgspec.Struct, frozen=True):
    """Ask the model; the reason says why no entry was served."""

    reason: str


class Store(msgspec.Struct, frozen=True):
    """Write the answer; it lives `ttl_s`."""

    ttl_s: float


class Discard(msgspec.Struct, frozen=True):
    """Do not write the answer."""

    reason: str


_LIVE_FIELDS = (
    ("web_search_options", "live_data"),
    ("kv_transfer_params", "transfer"),
    ("ec_transfer_params", "transfer"),
    ("diagnostics", "diagnostics"),
)


def route(body: Json, controls: Controls, mode: str) -> Bypass | Lookup:
    """Whether layers may be asked at all.

    Args:
        body: the neutral request.
        controls: what the request asks of the cache.
        mode: the route's mode: off, observe or exact; a request may only switch off.
    """
    if mode == "off" or controls.mode == "off":
        return Bypass("off")
    for name, reason in _LIVE_FIELDS:
        if body.get(name) is not None:
            return Bypass(reason)
    if body.get("max_tokens") == 0 or body.get("max_completion_tokens") == 0:
        return Bypass("prewarm")
    if controls.no_read and controls.no_write:
        return Bypass("request")
    return Lookup(serve=mode != "observe", read=not controls.no_read, write=not controls.no_write)


def judge(life: Life, purged: PurgeMode | None, controls: Controls, now_s: float) -> Hit | Stale | Miss:
    """Whether a found, authentic entry may be served.

    Args:
        life: the entry's.
        purged: the purge log's verdict on it.
        controls: what the request accepts.
        now_s: seconds since the epoch.
    """
    age_s = max(0.0, now_s - life.created_s)
    ttl_s = life.ttl_s - age_s
    if now_s < life.created_s - MAX_CLOCK_SKEW_S:
        return Miss("clock")
    if purged == "hard":
        return Miss("purged")
    if controls.max_age_s is not None and age_s > controls.max_age_s:
        return Miss("max_age")
    if controls.min_fresh_s is not None and ttl_s < controls.min_fresh_s:
        return Miss("min_fresh")
    if ttl_s > 0 and purged is None:
        return Hit(age_s, ttl_s)
    overdue_s = max(0.0, -ttl_s)
    if controls.max_stale_s is not None and overdue_s <= controls.max_stale_s:
        return Stale(age_s, min(ttl_s, 0.0), "soft_purged" if purged else "max_stale")
    return Miss("soft_purged" if purged and ttl_s > 0 else "expired")


MAX_CLOCK_SKEW_S = 60.0
"""An entry from further in the future than this is not trusted: some clock was wrong when it was made."""


@dataclass(frozen=True, slots=True)
class WriteRules:
    """What the operator allows of a write: lives in seconds.

    Attributes:
        ttl_s: of an entry whose request names none.
        jitter: by how much of it at most that life is shortened.
        classes: (life, jitter) by name, for requests that name a class.
    """

    ttl_s: float
    max_ttl_s: float
    jitter: float = 0.0
    classes: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def admit(
    response: ChatResponse,
    asked: Json,
    controls: Controls,
    rules: WriteRules,
    *,
    fallback: bool,
    spread: float = 0.0,
) -> Store | Discard:
    """Whether a whole answer may be stored.

    Args:
        response: the answer after its last byte.
        asked: the neutral request.
        controls: what the request allows; its TTL is clamped by the rules.
        rules: the operator's lives.
        fallback: whether another model than the route's own answered.
        spread: of the key, see `spread_of`.
    """
    if controls.no_write:
        return Discard("no_store")
    if fallback:
        return Discard("fallback")
    reason = refuse_write(response, asked)
    if reason is not None:
        return Discard(reason)
    return Store(_life_s(controls, rules, spread))


def _life_s(controls: Controls, rules: WriteRules, spread: float) -> float:
    """The life of an entry: in seconds as the request says, else of the class that it names, else the route's."""
    if controls.ttl_s is not None:
        return min(controls.ttl_s, rules.max_ttl_s)
    ttl_s, jitter = rules.classes.get(controls.ttl_class or "", (rules.ttl_s, rules.jitter))
    return min(ttl_s, rules.max_ttl_s) * (1 - jitter * spread)


def spread_of(digest: bytes) -> float:
    """A number from [0, 1) that is the same for a key each time, and evenly spread over keys."""
    return int.from_bytes(digest[:6], "big") / (1 << 48)
