"""The KV cache in figures."""

from collections import Counter
from dataclasses import dataclass, field

from engine.kv.wishes import PrefixOutcome


@dataclass(frozen=True, slots=True)
class KvUsage:
    """Figures for metrics; blocks over all groups, counts since the start.

    Attributes:
        blocks_used: held by a sequence.
        blocks_cached: held by none, but a prefix that may be asked for again; they count as free.
        blocks_free: held by none.
        blocks_pinned: protected by an unexpired breakpoint, held or not.
        fragmentation: slots of held blocks that hold no token, divided by slots of held blocks; [0, 1].
        evictions: cached blocks given up, by cause: capacity, floor, pin, expired, purge, orphan.
        query_tokens: tokens looked up, once per sequence.
        hit_tokens: tokens found, by tier.
        written_tokens: tokens whose blocks were newly cached.
        misses: look-ups by `PrefixOutcome.miss`, "none" included.
        corrupt_restores: host payloads whose checksum failed; each was a miss.
        collisions: blocks not cached because another has their digest.
        pins_refused: blocks not protected because the pinned share was used up.
    """

    blocks_total: int
    blocks_used: int
    blocks_cached: int
    blocks_free: int
    blocks_pinned: int
    fragmentation: float
    evictions: dict[str, int] = field(default_factory=dict)
    query_tokens: int = 0
    hit_tokens: dict[str, int] = field(default_factory=dict)
    written_tokens: int = 0
    misses: dict[str, int] = field(default_factory=dict)
    host_bytes: int = 0
    corrupt_restores: int = 0
    collisions: int = 0
    pins_refused: int = 0


class PrefixCounts:
    """Counts look-ups and what they found."""

    def __init__(self) -> None:
        self.query_tokens = 0
        self.written_tokens = 0
        self.collisions = 0
        self.hit_tokens: Counter[str] = Counter(device=0, host=0)
        self.misses: Counter[str] = Counter(none=0)

    def looked_up(self, tokens: int, outcome: PrefixOutcome) -> None:
        """Count one sequence's first look-up."""
        self.query_tokens += tokens
        self.misses[outcome.miss or "none"] += 1
        for tier, found in outcome.hits_by_tier.items():
            self.hit_tokens[tier] += found
