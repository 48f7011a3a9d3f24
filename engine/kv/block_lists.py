"""Doubly linked lists over the blocks of a group, kept in arrays of integers."""

from collections.abc import Iterator

NO_BLOCK = -1


class BlockLists:
    """Many lists that share two arrays of links; a block is in one list at most, and every step is O(1).

    A list is a number that `new_list` gave out.
    """

    def __init__(self, num_blocks: int) -> None:
        self._num_blocks = num_blocks
        self._next = list(range(num_blocks))
        self._previous = list(range(num_blocks))
        self._list_of = [NO_BLOCK] * num_blocks
        self._lengths: list[int] = []

    def new_list(self) -> int:
        """Open an empty list."""
        sentinel = len(self._next)
        self._next.append(sentinel)
        self._previous.append(sentinel)
        self._lengths.append(0)
        return len(self._lengths) - 1

    def length(self, which: int) -> int:
        """Count the blocks in a list."""
        return self._lengths[which]

    def list_of(self, block: int) -> int:
        """Return the list a block is in, -1 for none."""
        return self._list_of[block]

    def first(self, which: int) -> int:
        """Return the first block of a list, -1 when it is empty."""
        block = self._next[self._num_blocks + which]
        return block if block < self._num_blocks else NO_BLOCK

    def append(self, which: int, block: int) -> None:
        """Put a block that is in no list at the end of one."""
        sentinel = self._num_blocks + which
        self._link(which, block, self._previous[sentinel], sentinel)

    def prepend(self, which: int, block: int) -> None:
        """Put a block that is in no list at the front of one."""
        sentinel = self._num_blocks + which
        self._link(which, block, sentinel, self._next[sentinel])

    def remove(self, block: int) -> None:
        """Take a block out of the list it is in."""
        which = self._list_of[block]
        if which == NO_BLOCK:
            raise ValueError(f"block {block} is in no list")
        before, after = self._previous[block], self._next[block]
        self._next[before] = after
        self._previous[after] = before
        self._list_of[block] = NO_BLOCK
        self._lengths[which] -= 1

    def blocks(self, which: int) -> Iterator[int]:
        """Go through a list, first to last; the list must not change meanwhile."""
        block = self._next[self._num_blocks + which]
        while block < self._num_blocks:
            yield block
            block = self._next[block]

    def _link(self, which: int, block: int, before: int, after: int) -> None:
        if self._list_of[block] != NO_BLOCK:
            raise ValueError(f"block {block} is in a list already")
        self._next[before] = self._previous[after] = block
        self._previous[block], self._next[block] = before, after
        self._list_of[block] = which
        self._lengths[which] += 1
