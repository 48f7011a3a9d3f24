"""What a retention policy is told and what it promises."""

from dataclasses import dataclass
from typing import Protocol

from engine.kv.block_lists import BlockLists

Trace = tuple[int, int]
"""What a policy knew of a block: two integers of its own meaning, kept while the block's digest is remembered."""

NO_TRACE: Trace = (-1, 0)


@dataclass(frozen=True, slots=True)
class Session:
    """Facts about the sequence that lets go of its blocks, the same for all of them.

    Attributes:
        known_uses: how often the deepest block of it that was known had been asked for before; 0 if none was.
        new_tokens: its tokens behind that block.
    """

    known_uses: int
    new_tokens: int


class RetentionPolicy(Protocol):
    """Ranks the evictable blocks of one KV group; not thread-safe, every call O(1) or O(log n) on average.

    A block is in one of the policy's lists between `add` and `evict`, or until the owner of the lists removes it.
    """

    def __init__(self, lists: BlockLists, num_blocks: int) -> None: ...

    def released(self, block: int, uses: int, *, at_end: bool, session: Session) -> None:
        """Note that the last holder let go of a block; `add` follows, at once or later.

        Args:
            block: which.
            uses: look-ups that found it so far.
            at_end: whether the sequence ends with it.
            session: facts about that sequence.
        """
        ...

    def add(self, block: int, *, oldest: bool = False) -> None:
        """Rank a released block; `oldest` if it has been unused for long."""
        ...

    def reused(self, trace: Trace) -> None:
        """Note that a block of which this is the trace was asked for again."""
        ...

    def trace(self, block: int) -> Trace:
        """Return what should be kept of a block."""
        ...

    def evict(self) -> int:
        """Choose a block, take it out of its list and return it; -1 when there is none."""
        ...
