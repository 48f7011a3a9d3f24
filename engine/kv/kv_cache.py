"""The KV cache as the scheduler sees it: who holds which block, what is cached, what has to move."""

from collections.abc import Iterable

from engine.kv.admission import Admission
from engine.kv.cached_blocks import CachedBlocks
from engine.kv.contract import NULL_BLOCK, BlockCopy, Holder, KvGroup, Transfers
from engine.kv.digests import cache_root, tail_digest
from engine.kv.holding import Holding
from engine.kv.host_tier import HostTier
from engine.kv.integrity import check_books
from engine.kv.lookup import first_visible
from engine.kv.moves import Label, Moves
from engine.kv.outline import Outline, outline
from engine.kv.rates import Rates, worth_swapping
from engine.kv.retention import Session
from engine.kv.usage import KvUsage, PrefixCounts
from engine.kv.wishes import Retention

__all__ = ["KvCache", "KvUsage", "Retention"]


class KvCache:
    """Owns every KV block of a model. Not thread-safe: the engine's thread is its only caller.

    A sequence holds blocks between `admit` (or `fork`) and `release`. In between the scheduler calls `grow` before
    a step and `computed` after it. The cache writes `tables`, `num_computed`, `write_from` and `prefix` of a
    sequence, and nothing else; it reads `num_computed` as the scheduler advances it.

    Attributes:
        rates: assign what was measured; the host tier and `prefers_swap` decide by it.
    """

    def __init__(
        self,
        groups: tuple[KvGroup, ...],
        num_blocks: tuple[int, ...],
        block_size: int,
        root: bytes,
        *,
        retention: Retention,
        host: HostTier | None = None,
    ) -> None:
        self.groups = groups
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.retention = retention
        self.host = host
        self.rates = Rates()
        self._has_windows = any(group.window is not None for group in groups)
        self._moves = Moves(host)
        self._counts = PrefixCounts()
        self._cached = CachedBlocks(
            groups, num_blocks, cache_root(root, groups, block_size), retention, self._moves
        )
        self._admission = Admission(self._cached, self._moves, self._counts, groups, block_size)
        self._holdings: dict[int, Holding] = {}

    @property
    def num_free(self) -> int:
        """Blocks that no sequence holds, cached ones included; of the group that has the fewest."""
        return min(books.num_free for books in self._cached.books)

    def blocks_for(self, num_tokens: int) -> int:
        """Count the blocks of one group that many tokens need."""
        return -(-num_tokens // self.block_size)

    def can_hold(self, tokens: int) -> bool:
        """Whether a sequence of that many tokens could ever be held, all other blocks being free."""
        return self.blocks_for(tokens) <= min(self.num_blocks)

    def peek(self, sequence: Holder) -> int:
        """Count the tokens a look-up on the device would find now. Changes nothing."""
        return self._admission.peek(sequence)

    def admit(self, sequence: Holder, upto: int, now_s: float) -> bool:
        """Give a sequence without blocks its cached prefix and room for tokens [0, upto).

        At most `num_tokens - 1` tokens count as computed, so that there is always a row to sample from; the
        recomputed one is stored nowhere (`write_from` is behind it).

        Returns:
            False when too few blocks are free; then nothing has changed.

        Side effects: sets `tables`, `num_computed` and `write_from`, and `prefix` if it is None; adds transfers.
        """
        if sequence.seq_id in self._holdings:
            raise ValueError(f"sequence {sequence.seq_id} holds blocks already")
        self._cached.expire(now_s)
        holding = self._admission.admit(sequence, upto, self.rates, now_s)
        if holding is None:
            return False
        self._holdings[sequence.seq_id] = holding
        return True

    def grow(self, sequence: Holder, upto: int) -> bool:
        """Make the tables cover tokens [0, upto), and the slots from `num_computed` on private to the sequence.

        Returns:
            False when too few blocks are free; then nothing has changed.

        Side effects: may add a copy (a shared, partly filled block is copied before it is written).
        """
        holding = self._holdings[sequence.seq_id]
        missing = self.blocks_for(upto) - len(sequence.tables[0])
        if missing <= 0 and not holding.open_shared:
            return True
        missing = max(0, missing)
        place, slots = divmod(max(sequence.num_computed, sequence.write_from), self.block_size)
        shared = [
            holding.open_shared
            and slots > 0
            and place < len(table)
            and self._cached.is_shared(group, table[place])
            for group, table in enumerate(sequence.tables)
        ]
        books = self._cached.books
        if any(missing + copied > book.num_free for copied, book in zip(shared, books, strict=True)):
            return False
        for group, table in enumerate(sequence.tables):
            if shared[group]:
                target = self._cached.take(group, holding.tree)
                self._moves.copy(BlockCopy(group, table[place], target, slots))
                table[place] = target
            table.extend(self._cached.take(group, holding.tree) for _ in range(missing))
        holding.open_shared = False
        return True

    def computed(self, sequence: Holder, now_s: float) -> None:
        """Note that the tokens before `num_computed` are in the blocks; call it after a step that succeeded.

        Side effects: blocks that became full are cached from now on, whoever else runs; blocks no later query
        can see are given back and become NULL_BLOCK in the table.
        """
        holding = self._holdings[sequence.seq_id]
        full = min(sequence.num_computed, sequence.cache_upto) // self.block_size
        if full > holding.published:
            self._cached.expire(now_s)
            self._admission.publish(holding, full, now_s)
        if self._has_windows:
            self._clear_behind(holding)

    def fork(self, parent: Holder, child: Holder) -> None:
        """Let a sequence without blocks share all blocks of another; each copies the open one when it writes.

        Side effects: sets the child's `tables`, `num_computed`, `write_from` and `prefix` to the parent's.
        """
        source = self._holdings[parent.seq_id]
        held = min(max(parent.num_computed, parent.write_from), len(child.prompt_ids) + len(child.output_ids))
        child.num_computed = min(parent.num_computed, held)
        child.write_from = min(parent.write_from, held)
        child.prefix = parent.prefix
        child.tables = [table[: self.blocks_for(held)] for table in parent.tables]
        for group, table in enumerate(child.tables):
            for block in table:
                if block != NULL_BLOCK:
                    self._cached.hold(group, block)
        shared = min(source.published, held // self.block_size)
        self._cached.open(source.tree)
        self._holdings[child.seq_id] = Holding(
            sequence=child,
            chain=source.chain.fork(shared),
            tree=source.tree,
            keeps=source.keeps,
            published=shared,
            known=min(source.known, shared),
            known_uses=source.known_uses,
            cleared=list(source.cleared),
            open_shared=True,
            publishes=source.publishes,
        )
        source.open_shared = True

    def release(self, sequence: Holder, now_s: float) -> None:
        """Take every block back; what is cached stays so until the room is needed. Idempotent.

        Side effects: empties `tables`, sets `num_computed` and `write_from` to 0; drops its pending transfers.
        """
        self._admission.forget(sequence)
        holding = self._holdings.pop(sequence.seq_id, None)
        if holding is not None:
            self._cached.expire(now_s)
            self._give_back(holding)

    def discard(self, sequence: Holder, now_s: float) -> None:
        """Release a sequence whose numbers cannot be trusted: its step failed, or its logits were NaN.

        Side effects: those of `release`; what was cached on its behalf since it was admitted is forgotten, and
        what was brought back for it was never cached.
        """
        holding = self._holdings.get(sequence.seq_id)
        if holding is not None:
            self._cached.discard(holding.mine)
        self.release(sequence, now_s)

    def prefers_swap(self, sequence: Holder) -> bool:
        """Whether preempting it by `swap_out` costs less time than computing it again."""
        holding = self._holdings.get(sequence.seq_id)
        computed = sequence.num_computed
        if self.host is None or holding is None or not holding.publishes or sequence.cache_upto < computed:
            return False
        num_bytes = sum(
            size * sum(block != NULL_BLOCK for block in table[: self.blocks_for(computed)])
            for size, table in zip(self.host.block_bytes, sequence.tables, strict=True)
        )
        return num_bytes <= self.host.capacity_bytes and worth_swapping(num_bytes, computed, self.rates)

    def swap_out(self, sequence: Holder, now_s: float) -> None:
        """Release a sequence so that the host keeps what the device gives up, its open block included."""
        holding = self._holdings.get(sequence.seq_id)
        if holding is not None:
            self._cached.mark_swapped(sequence.tables)
            self._save_open_block(holding)
        self.release(sequence, now_s)

    def swap_in(self, sequence: Holder, upto: int, now_s: float) -> bool:
        """Admit a sequence that was swapped out; same promise as `admit`."""
        return self.admit(sequence, upto, now_s)

    def take_transfers(self) -> Transfers:
        """Hand out what has to move before the next step; once per plan, after the last admit and grow."""
        for copy in self._moves.copies:
            self._cached.drop(copy.group, copy.source, Session(0, 0))
        return self._moves.take()

    def saved(self, digest: bytes, group: int, payload: bytes) -> None:
        """Keep on the host what a BlockSave read out; unknown or late ones are ignored."""
        self._moves.saved(digest, group, payload)

    def purge(self, salt: str) -> int:
        """Forget everything cached for a tenant, in every tier; running sequences go on unshared.

        Returns:
            how many device blocks were forgotten.
        """
        for holding in self._holdings.values():
            if holding.tree.salt == salt:
                holding.publishes = False
        self._moves.forget(salt)
        self._admission.forget_salt(salt)
        if self.host is not None:
            self.host.purge(salt)
        return self._cached.purge(salt)

    def outline(self, most_trees: int, most_runs: int) -> Outline:
        """Return the trees of cached prefixes in outline; see engine.kv.outline."""
        return outline(self._cached.trees, self.block_size, most_trees, most_runs)

    def usage(self) -> KvUsage:
        """Return the figures for metrics."""
        books, counts = self._cached.books, self._counts
        total, free = sum(self.num_blocks), sum(book.num_free for book in books)
        open_slots = sum(
            len(one.sequence.tables[0]) * self.block_size - max(one.sequence.num_computed, one.sequence.write_from)
            for one in self._holdings.values()
        )
        held_slots = (total - free) * self.block_size
        return KvUsage(
            blocks_total=total,
            blocks_used=total - free,
            blocks_cached=sum(book.evictable.count for book in books),
            blocks_free=free,
            blocks_pinned=sum(book.evictable.pinned for book in books),
            fragmentation=min(1.0, open_slots * len(books) / held_slots) if held_slots else 0.0,
            evictions={str(cause): count for cause, count in self._cached.evictions.items()},
            query_tokens=counts.query_tokens,
            hit_tokens=dict(counts.hit_tokens),
            written_tokens=counts.written_tokens,
            misses=dict(counts.misses),
            host_bytes=0 if self.host is None else self.host.used_bytes,
            corrupt_restores=0 if self.host is None else self.host.corrupt,
            collisions=counts.collisions,
            pins_refused=self._cached.pins_refused,
        )

    def check(self, sequences: Iterable[Holder]) -> None:
        """Prove every book against the live sequences; for tests and for a doubtful moment.

        Raises:
            AssertionError: an invariant does not hold; the message names it.
        """
        check_books(self._cached, self._moves, self._holdings, list(sequences), self.block_size)

    def _clear_behind(self, holding: Holding) -> None:
        sequence = holding.sequence
        for group, spec in enumerate(self.groups):
            first = first_visible(sequence.num_computed, spec.window, self.block_size)
            table = sequence.tables[group]
            for index in range(holding.cleared[group], min(first, len(table))):
                if table[index] != NULL_BLOCK:
                    self._cached.drop(group, table[index], holding.session(self.block_size))
                    table[index] = NULL_BLOCK
            holding.cleared[group] = max(first, holding.cleared[group])

    def _give_back(self, holding: Holding) -> None:
        sequence, end = holding.sequence, holding.published - 1
        session = holding.session(self.block_size)
        for group, table in enumerate(sequence.tables):
            for index in range(len(table) - 1, -1, -1):
                block = table[index]
                if block == NULL_BLOCK:
                    continue
                source = self._moves.cancel(group, block) if self._moves.pending else NULL_BLOCK
                if source != NULL_BLOCK:
                    self._cached.drop(group, source, session)
                self._cached.drop(group, block, session, at_end=index == end)
        sequence.tables = []
        sequence.num_computed = sequence.write_from = 0
        self._cached.close(holding.tree)

    def _save_open_block(self, holding: Holding) -> None:
        sequence = holding.sequence
        place, slots = divmod(sequence.num_computed, self.block_size)
        if slots == 0 or not holding.publishes:
            return
        holding.chain.cover(sequence, sequence.num_computed)
        tokens = holding.chain.span(place * self.block_size, sequence.num_computed)
        parent = holding.chain.parent(place)
        for group, table in enumerate(sequence.tables):
            if table[place] != NULL_BLOCK:
                label = Label(holding.tree.salt, parent, tokens)
                self._moves.save(group, table[place], tail_digest(parent, tokens), label)
