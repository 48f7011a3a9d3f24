"""Least recently used, the plain policy."""

from engine.kv.block_lists import NO_BLOCK, BlockLists
from engine.kv.retention.contract import NO_TRACE, Session, Trace


class LeastRecentlyUsed:
    """Gives up the block that was let go of first; of one sequence, its last block first."""

    def __init__(self, lists: BlockLists, num_blocks: int) -> None:  # noqa: ARG002  (the contract's shape)
        self._lists = lists
        self._order = lists.new_list()

    def released(self, block: int, uses: int, *, at_end: bool, session: Session) -> None:
        """Need nothing but the order of `add`."""

    def add(self, block: int, *, oldest: bool = False) -> None:
        """Put a block behind the others, or before them."""
        if oldest:
            self._lists.prepend(self._order, block)
        else:
            self._lists.append(self._order, block)

    def reused(self, trace: Trace) -> None:
        """Need nothing: the block moves to the end when it is let go of."""

    def trace(self, block: int) -> Trace:  # noqa: ARG002
        """Return nothing worth keeping."""
        return NO_TRACE

    def evict(self) -> int:
        """Give up the first of the list."""
        block = self._lists.first(self._order)
        if block != NO_BLOCK:
            self._lists.remove(block)
        return block
