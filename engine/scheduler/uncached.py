"""Blocks without a cache, behind the KV cache's face, until `KvCache` does the work itself."""

from collections.abc import Iterable

from engine.kv.block_pool import BlockPool
from engine.kv.contract import BlockCopy, Holder, KvGroup, Transfers
from engine.kv.kv_cache import KvCache, KvUsage, Retention
from engine.kv.wishes import PrefixOutcome


class UncachedBlocks(KvCache):
    """Shares nothing but between forks."""

    def __init__(self, groups: tuple[KvGroup, ...], num_blocks: int, block_size: int) -> None:
        super().__init__(groups, (num_blocks,) * len(groups), block_size, b"", retention=Retention())
        self._pool = BlockPool(num_blocks, block_size)
        self._copies: list[BlockCopy] = []

    @property
    def num_free(self) -> int:
        """Free blocks."""
        return self._pool.num_free

    def can_hold(self, tokens: int) -> bool:
        """Whether the pool is large enough."""
        return self.blocks_for(tokens) <= self._pool.num_blocks

    def peek(self, sequence: Holder) -> int:  # noqa: ARG002
        """Find nothing."""
        return 0

    def admit(self, sequence: Holder, upto: int, now_s: float) -> bool:  # noqa: ARG002
        """Allocate."""
        count = self.blocks_for(upto)
        if count > self.num_free:
            return False
        sequence.tables = [self._pool.allocate(count)] * len(self.groups)
        sequence.num_computed = sequence.write_from = 0
        if sequence.prefix is None:
            sequence.prefix = PrefixOutcome(0, miss="cold")
        return True

    def grow(self, sequence: Holder, upto: int) -> bool:
        """Allocate more, and copy a shared open block."""
        table = sequence.tables[0]
        count = max(0, self.blocks_for(upto) - len(table))
        place, slots = divmod(sequence.num_computed, self.block_size)
        shared = place < len(table) and self._pool.is_shared(table[place])
        if count + shared > self.num_free:
            return False
        if shared:
            (own,) = self._pool.allocate(1)
            if slots:
                self._copies += [BlockCopy(group, table[place], own, slots) for group in range(len(self.groups))]
            self._pool.release([table[place]])
            table[place] = own
        table += self._pool.allocate(count)
        return True

    def computed(self, sequence: Holder, now_s: float) -> None:
        """Do nothing."""

    def fork(self, parent: Holder, child: Holder) -> None:
        """Share every block."""
        self._pool.share(parent.tables[0])
        child.tables = [list(parent.tables[0])] * len(self.groups)
        child.num_computed, child.write_from = parent.num_computed, parent.write_from
        child.prefix = parent.prefix

    def release(self, sequence: Holder, now_s: float) -> None:  # noqa: ARG002
        """Give back."""
        for table in sequence.tables[:1]:
            self._pool.release(table)
        sequence.tables = []
        sequence.num_computed = sequence.write_from = 0

    def discard(self, sequence: Holder, now_s: float) -> None:
        """Give back."""
        self.release(sequence, now_s)

    def prefers_swap(self, sequence: Holder) -> bool:  # noqa: ARG002
        """Never."""
        return False

    def take_transfers(self) -> Transfers:
        """Copies of open blocks."""
        copies, self._copies = tuple(self._copies), []
        return Transfers(copies=copies)

    def purge(self, salt: str) -> int:  # noqa: ARG002
        """Nothing is cached."""
        return 0

    def usage(self) -> KvUsage:
        """Used and free."""
        return KvUsage(self._pool.num_blocks, self._pool.num_used, 0, self._pool.num_free, 0, 0.0)

    def check(self, sequences: Iterable[Holder]) -> None:
        """Prove the pool's books."""
        self._pool.check(one.tables[0] for one in sequences)
