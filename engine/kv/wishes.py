"""What a request and an operator ask of the KV cache, and what it tells about a request afterwards."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

Tier = Literal["device", "host"]
"""Where cached tokens were found."""

Miss = Literal["cold", "differs", "evicted", "expired", "salt", "short"]
"""Why the tokens behind the hit were not cached."""


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """Keep the prefix of the first `tokens` prompt tokens for `ttl_s` seconds after each use.

    Only whole blocks can be kept. Protection is against other cached prefixes; a running sequence that finds no
    other block may still take it.
    """

    tokens: int
    ttl_s: float


@dataclass(frozen=True, slots=True)
class CacheWishes:
    """What one request asks of the cache.

    Attributes:
        salt: the tenant; sequences with different salts never share a block. Set by the server, never by a client.
        breakpoints: prefixes to keep longer than others.
        read: False computes every token anew, as prompt log-probabilities need; what was computed is cached still.
    """

    salt: str = ""
    breakpoints: tuple[Breakpoint, ...] = ()
    read: bool = True


@dataclass(frozen=True, slots=True)
class PrefixOutcome:
    """What the first look-up of a sequence found.

    Attributes:
        hit_tokens: tokens whose keys and values need not be computed; at most one less than the prompt has.
        hits_by_tier: the same tokens by where they were; sums to `hit_tokens`.
        miss: why the hit ends where it does; None when nothing is missing, or less than a block. "differs": a
            cached prompt goes on with other tokens; "evicted", "expired": the next block was cached once;
            "salt": another tenant has the same first block, which is for the operator's metric alone, a client
            is told "cold"; "short": the prompt is shorter than a block; "cold": never seen.
        differs_at: index of the first token that differs when `miss` is "differs".
    """

    hit_tokens: int
    hits_by_tier: Mapping[Tier, int] = field(default_factory=lambda: MappingProxyType({}))
    miss: Miss | None = None
    differs_at: int | None = None

    @property
    def told_miss(self) -> Miss | None:
        """The reason as a client may read it: nothing about other tenants."""
        return "cold" if self.miss == "salt" else self.miss


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept when memory is short.

    Attributes:
        policy: a name in `engine.kv.retention.RETENTION`.
        pinned_share: of each group's blocks, the most that unexpired breakpoints may protect, [0, 1].
        tenant_floor: share of each group's blocks that other tenants' caching leaves to a tenant, [0, 1].
        drop_expired: forget a breakpoint's blocks when they expire, instead of only ending their protection.
    """

    policy: str = "lru"
    pinned_share: float = 0.5
    tenant_floor: float = 0.0
    drop_expired: bool = False
