"""What the KV cache keeps about a sequence that holds blocks."""

from dataclasses import dataclass, field

from engine.kv.chain import Chain
from engine.kv.contract import Holder, KvGroup
from engine.kv.lookup import first_visible
from engine.kv.prefix_tree import Node, PrefixTree
from engine.kv.retention import Session
from engine.kv.wishes import CacheWishes


@dataclass(slots=True, eq=False)
class Holding:
    """The cache's side of a sequence.

    Attributes:
        sequence: its side.
        chain: its tokens and digests.
        tree: where its blocks are published.
        keeps: protections wished for, (blocks, seconds), the longest prefix first.
        published: leading blocks that have been considered for publishing.
        known: leading blocks that were cached before, now or once.
        known_uses: how often the last of them had been asked for.
        cleared: per KV group, leading blocks given back because no query can see them.
        open_shared: whether the open block may be shared with a fork.
        publishes: False after a purge of its tenant.
        mine: the nodes that were first cached for it.
    """

    sequence: Holder
    chain: Chain
    tree: PrefixTree
    keeps: tuple[tuple[int, float], ...]
    published: int
    known: int
    known_uses: int
    cleared: list[int]
    open_shared: bool = False
    publishes: bool = True
    mine: list[Node] = field(default_factory=list)

    def session(self, block_size: int) -> Session:
        """Return the facts a retention policy asks for."""
        tokens = len(self.sequence.prompt_ids) + len(self.sequence.output_ids)
        return Session(self.known_uses, max(0, tokens - self.known * block_size))

    def protection(self, index: int, groups: tuple[KvGroup, ...], block_size: int) -> tuple[int, float]:
        """Return for which groups (bits), and for how long, block `index` is to be protected; (0, 0) for none."""
        bits, longest = 0, 0.0
        for blocks, ttl_s in self.keeps:
            if index >= blocks:
                break
            longest = max(longest, ttl_s)
            for group, spec in enumerate(groups):
                if index >= first_visible(blocks * block_size, spec.window, block_size):
                    bits |= 1 << group
        return bits, longest


def wished_keeps(wishes: CacheWishes, block_size: int) -> tuple[tuple[int, float], ...]:
    """Turn breakpoints into whole blocks, the longest prefix first."""
    keeps = ((point.tokens // block_size, point.ttl_s) for point in wishes.breakpoints)
    return tuple(sorted((keep for keep in keeps if keep[0] > 0 and keep[1] > 0), reverse=True))
