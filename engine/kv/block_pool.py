"""Who holds which KV block: plain integers, no tensors.

A block is `block_size` token slots in the KV pool. Each sequence owns a block table, a list of block ids; token
position p lives in slot `table[p // block_size] * block_size + p % block_size`. Blocks are counted by reference,
so that tables can share a block; a block returns to the free list with its last reference.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from engine.errors import OutOfBlocks


class BlockPool:
    """Hands out blocks and takes them back; keeps `free + used = total` at all times."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._references = [0] * num_blocks
        self._free = list(reversed(range(num_blocks)))

    @property
    def num_free(self) -> int:
        """Blocks no table holds."""
        return len(self._free)

    @property
    def num_used(self) -> int:
        """Blocks at least one table holds."""
        return self.num_blocks - len(self._free)

    def is_shared(self, block: int) -> bool:
        """Whether more than one table holds a block."""
        return self._references[block] > 1

    def blocks_for(self, num_tokens: int) -> int:
        """Count the blocks that many tokens need."""
        return -(-num_tokens // self.block_size)

    def allocate(self, count: int) -> list[int]:
        """Take blocks out of the free list, last freed first, so that memory never used stays untouched.

        Raises:
            OutOfBlocks: fewer than `count` are free; nothing was taken.
        """
        if count > len(self._free):
            raise OutOfBlocks(f"asked for {count} blocks, {len(self._free)} free")
        blocks = [self._free.pop() for _ in range(count)]
        for block in blocks:
            self._references[block] = 1
        return blocks

    def take(self) -> int:
        """Take one block out of the free list.

        Raises:
            IndexError: none is free.
        """
        block = self._free.pop()
        self._references[block] = 1
        return block

    def free_blocks(self) -> list[int]:
        """Return the free list, next to be taken last."""
        return list(self._free)

    def references(self, block: int) -> int:
        """Count the references to a block."""
        return self._references[block]

    def reclaim(self, block: int) -> None:
        """Give its first reference to a block that nobody holds and that is not in the free list: a cached one."""
        self._references[block] = 1

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

    def share(self, blocks: Iterable[int]) -> None:
        """Add a reference to blocks that are held already."""
        for block in blocks:
            if self._references[block] == 0:
                raise ValueError(f"block {block} is free and cannot be shared")
            self._references[block] += 1

    def release(self, blocks: Sequence[int]) -> None:
        """Drop one reference per block; a chain whose blocks all become free is handed out again in its order."""
        for block in reversed(blocks):
            if self._references[block] == 0:
                raise ValueError(f"block {block} is free already")
            self._references[block] -= 1
            if self._references[block] == 0:
                self._free.append(block)

    def check(self, tables: Iterable[Sequence[int]]) -> None:
        """Prove the books against every live block table; for tests and for a doubtful moment.

        Raises:
            AssertionError: a count, the free list or a table disagrees with the others.
        """
        held = Counter(block for table in tables for block in table)
        if self._references != [held[block] for block in range(self.num_blocks)]:
            raise AssertionError("reference counts differ from the block tables")
        free = Counter(self._free)
        if free != Counter(block for block in range(self.num_blocks) if held[block] == 0):
            raise AssertionError("the free list differs from the blocks that no table holds")
