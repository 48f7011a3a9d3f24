"""The evictable blocks of a KV group, and whose turn it is.

Cached blocks that nobody holds are given up in this order:

1. what the retention policy ranks lowest, of the least important level that has any;
2. the asking tenant's own floor, then the largest floor of another tenant;
3. pinned blocks, the longest unused first.

The second and third only when a running sequence finds nothing else, so neither floors nor pins starve one, and
what one tenant caches never takes another's floor or anyone's pin while blocks are left above.
"""

from typing import Literal

from engine.kv.block_lists import NO_BLOCK, BlockLists
from engine.kv.contract import NULL_BLOCK
from engine.kv.prefix_tree import Node, PrefixTree
from engine.kv.retention import RETENTION, RetentionPolicy

EvictionCause = Literal["capacity", "floor", "pin", "expired", "purge", "orphan", "discard"]

LEVELS = (1, 0, -1)
"""Retention levels, least important first: the sign of a sequence's priority."""

FLOORS_AT_MOST = 0.5
"""Share of a group that all tenants' floors may take together."""


class Evictable:
    """Orders the evictable blocks of KV group `group`; every step O(1), besides choosing among tenants' floors.

    Attributes:
        owners: the node each block is cached for, evictable or held; None for none.
        count: evictable blocks.
        pinned: protected blocks, evictable or held.
    """

    def __init__(self, group: int, num_blocks: int, policy: str, tenant_floor: float) -> None:
        self._group = group
        self._num_blocks = num_blocks
        self._tenant_floor = tenant_floor
        self.owners: list[Node | None] = [None] * num_blocks
        self.lists = BlockLists(num_blocks)
        self.count = 0
        self.pinned = 0
        self._pins = self.lists.new_list()
        self._policies: dict[int, RetentionPolicy] = {
            level: RETENTION[policy](self.lists, num_blocks) for level in LEVELS
        }
        self._floors: dict[PrefixTree, int] = {}
        self._spare_lists: list[int] = []

    def policy(self, node: Node) -> RetentionPolicy:
        """Return the policy that ranks a node."""
        return self._policies[node.level]

    def holds(self, block: int) -> bool:
        """Whether a block is evictable."""
        return self.lists.list_of(block) != NO_BLOCK

    def holds_node(self, node: Node) -> bool:
        """Whether the node has an evictable block here."""
        block = node.blocks[self._group]
        return block != NULL_BLOCK and self.lists.list_of(block) != NO_BLOCK

    def add(self, block: int, node: Node, *, oldest: bool = False) -> None:
        """Rank a cached block that was let go of; its policy has been told of it."""
        self.count += 1
        if node.pins >> self._group & 1:
            self.lists.append(self._pins, block)
        elif self._tenant_floor > 0 and not oldest:
            self._add_to_floor(block, node.tree)
        else:
            self._policies[node.level].add(block, oldest=oldest)

    def remove(self, block: int) -> None:
        """Take a block out: it is held again, or no more cached."""
        self.lists.remove(block)
        self.count -= 1

    def evict(self, tree: PrefixTree) -> tuple[int, EvictionCause]:
        """Choose a block for the tenant of `tree` and take it out.

        Returns:
            the block, -1 when there is none, and what had to give way.
        """
        for level in LEVELS:
            block = self._policies[level].evict()
            if block != NO_BLOCK:
                self.count -= 1
                return block, "capacity"
        return self._evict_protected(tree)

    def close(self, tree: PrefixTree) -> None:
        """Forget a tenant without evictable blocks."""
        floor = self._floors.pop(tree, None)
        if floor is not None:
            self._spare_lists.append(floor)

    def floor_blocks(self) -> int:
        """Return how many blocks other tenants leave to one, with as many tenants as there are."""
        share = min(self._tenant_floor, FLOORS_AT_MOST / max(1, len(self._floors)))
        return int(share * self._num_blocks)

    def _evict_protected(self, tree: PrefixTree) -> tuple[int, EvictionCause]:
        own = self._floors.get(tree)
        if own is not None and self.lists.length(own):
            return self._pop(own), "capacity"
        largest = max(self._floors.values(), key=self.lists.length, default=None)
        if largest is not None and self.lists.length(largest):
            return self._pop(largest), "floor"
        return (self._pop(self._pins), "pin") if self.lists.length(self._pins) else (NO_BLOCK, "capacity")

    def _pop(self, which: int) -> int:
        block = self.lists.first(which)
        self.remove(block)
        return block

    def _add_to_floor(self, block: int, tree: PrefixTree) -> None:
        floor = self._floors.get(tree)
        if floor is None:
            floor = self._floors[tree] = self._open_list()
        self.lists.append(floor, block)
        most = self.floor_blocks()
        while self.lists.length(floor) > most:
            older = self.lists.first(floor)
            owner = self.owners[older]
            level = 0 if owner is None else owner.level
            self.lists.remove(older)
            self._policies[level].add(older)

    def _open_list(self) -> int:
        if not self._spare_lists:
            empty = [tree for tree, which in self._floors.items() if not self.lists.length(which)]
            self._spare_lists += [self._floors.pop(tree) for tree in empty]
        return self._spare_lists.pop() if self._spare_lists else self.lists.new_list()
