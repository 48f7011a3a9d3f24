"""References to the blocks of one KV group, and the list of those that nobody holds and nothing is cached in.

A block is a number. It is held while it has references: one per table entry, and one per copy in flight that reads
it. Without references it is in the free list, or evictable, which `engine.kv.evictable` keeps.
"""


class BlockPool:
    """Counts references and keeps the free list; every step O(1)."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._references = [0] * num_blocks
        self._free = list(reversed(range(num_blocks)))

    @property
    def num_free(self) -> int:
        """Blocks in the free list."""
        return len(self._free)

    def free_blocks(self) -> list[int]:
        """Return the free list, next to be taken last."""
        return list(self._free)

    def references(self, block: int) -> int:
        """Count the references to a block."""
        return self._references[block]

    def take(self) -> int:
        """Take a block out of the free list, last freed first, so that memory never used stays untouched.

        Raises:
            IndexError: none is free; ask `num_free` first.
        """
        block = self._free.pop()
        self._references[block] = 1
        return block

    def reclaim(self, block: int) -> None:
        """Give its first reference to a block that was evictable."""
        if self._references[block]:
            raise ValueError(f"block {block} is held")
        self._references[block] = 1

    def share(self, block: int) -> None:
        """Add a reference to a block that is held already."""
        if self._references[block] == 0:
            raise ValueError(f"block {block} is free and cannot be shared")
        self._references[block] += 1

    def let_go(self, block: int) -> int:
        """Drop one reference and return how many are left; the block goes to the free list only by `put_back`."""
        left = self._references[block] - 1
        if left < 0:
            raise ValueError(f"block {block} is free already")
        self._references[block] = left
        return left

    def put_back(self, block: int) -> None:
        """Put a block without references on top of the free list."""
        self._free.append(block)
