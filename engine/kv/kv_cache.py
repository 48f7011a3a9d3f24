"""The KV cache as the scheduler sees it: who holds which block, what is cached, what has to move."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.kv.contract import Holder, KvGroup, Transfers
from engine.kv.rates import Rates


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept when memory is short.

    Attributes:
        policy: a name in `engine.kv.retention.RETENTION`.
        pinned_share: of each group's blocks, the most that unexpired breakpoints may protect, [0, 1].
        tenant_floor: share of each group's blocks that other tenants' caching leaves to a tenant, [0, 1].
        drop_expired: forget a breakpoint's blocks when they expire, instead of only ending their protection.
    """

    policy: str = "lru"
    pinned_share: float = 0.5
    tenant_floor: float = 0.0
    drop_expired: bool = False


@dataclass(frozen=True, slots=True)
class KvUsage:
    """Figures for metrics; blocks over all groups, counts since the start.

    Attributes:
        blocks_used: held by a sequence.
        blocks_cached: held by none, but a prefix that may be asked for again; they count as free.
        blocks_free: held by none.
        fragmentation: slots of held blocks that hold no token, divided by slots of held blocks; [0, 1].
        evictions: cached blocks given up, by cause: capacity, floor, pin, expired, purge.
        query_tokens: tokens looked up, once per sequence.
        hit_tokens: tokens found, by tier.
        written_tokens: tokens whose blocks were newly cached.
        misses: look-ups by `PrefixOutcome.miss`, "none" included.
        corrupt_restores: host payloads whose checksum failed; each was a miss.
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


class KvCache:
    """Owns every KV block of a model. Not thread-safe: the engine's thread is its only caller.

    A sequence holds blocks between `admit` (or `fork`) and `release`. In between the scheduler calls `grow` before
    a step and `computed` after it. The cache writes `tables`, `num_computed`, `write_from` and `prefix` of a
    sequence, and nothing else; it reads `num_computed` as the scheduler advances it.

    Attributes:
        rates: assign what was measured (`kv.rates = kv.rates.with_prefill(tokens, seconds)`); the host tier and
            `prefers_swap` decide by it.
    """

    def __init__(
        self,
        groups: tuple[KvGroup, ...],
        num_blocks: tuple[int, ...],
        block_size: int,
        root: bytes,
        *,
        retention: Retention,
        host: None = None,
    ) -> None:
        self.groups = groups
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.root = root
        self.retention = retention
        self.host = host
        self.rates = Rates()

    @property
    def num_free(self) -> int:
        """Blocks that no sequence holds, cached ones included; of the group that has the fewest."""
        raise NotImplementedError

    def blocks_for(self, num_tokens: int) -> int:
        """Count the blocks of one group that many tokens need."""
        return -(-num_tokens // self.block_size)

    def can_hold(self, tokens: int) -> bool:
        """Whether a sequence of that many tokens could ever be held, all other blocks being free."""
        raise NotImplementedError

    def peek(self, sequence: Holder) -> int:
        """Count the tokens a look-up would find now. Changes nothing."""
        raise NotImplementedError

    def admit(self, sequence: Holder, upto: int, now_s: float) -> bool:
        """Give a sequence without blocks its cached prefix and room for tokens [0, upto).

        At most `num_tokens - 1` tokens count as computed, so that there is always a row to sample from; the
        recomputed one is stored nowhere (`write_from` is behind it).

        Returns:
            False when too few blocks are free; then nothing has changed.

        Side effects: sets `tables`, `num_computed` and `write_from`, and `prefix` if it is None; adds transfers.
        """
        raise NotImplementedError

    def grow(self, sequence: Holder, upto: int) -> bool:
        """Make the tables cover tokens [0, upto), and the slots from `num_computed` on private to the sequence.

        Returns:
            False when too few blocks are free; then nothing has changed.

        Side effects: may add a copy (a shared, partly filled block is copied before it is written).
        """
        raise NotImplementedError

    def computed(self, sequence: Holder, now_s: float) -> None:
        """Note that the tokens before `num_computed` are in the blocks; call it after a step that succeeded.

        Side effects: blocks that became full are cached from now on, whoever else runs; blocks no later query
        can see are given back and become NULL_BLOCK in the table.
        """
        raise NotImplementedError

    def fork(self, parent: Holder, child: Holder) -> None:
        """Let a sequence without blocks share all blocks of another; each copies the open one when it writes.

        Side effects: sets the child's `tables`, `num_computed`, `write_from` and `prefix` to the parent's.
        """
        raise NotImplementedError

    def release(self, sequence: Holder, now_s: float) -> None:
        """Take every block back; what is cached stays so until the room is needed. Idempotent.

        Side effects: empties `tables`, sets `num_computed` and `write_from` to 0; drops its pending transfers.
        """
        raise NotImplementedError

    def discard(self, sequence: Holder, now_s: float) -> None:
        """Release a sequence whose numbers cannot be trusted: its step failed, or its logits were NaN.

        Side effects: those of `release`; what was cached on its behalf since it was admitted is forgotten, and so
        are blocks whose restores were handed out for it and may not have been carried out.
        """
        raise NotImplementedError

    def prefers_swap(self, sequence: Holder) -> bool:
        """Whether preempting it by `swap_out` costs less time than computing it again."""
        raise NotImplementedError

    def swap_out(self, sequence: Holder, now_s: float) -> None:
        """Release a sequence so that the host keeps what the device gives up, its open block included."""
        raise NotImplementedError

    def swap_in(self, sequence: Holder, upto: int, now_s: float) -> bool:
        """Admit a sequence that was swapped out; same promise as `admit`."""
        raise NotImplementedError

    def take_transfers(self) -> Transfers:
        """Hand out what has to move before the next step; once per plan, after the last admit and grow."""
        raise NotImplementedError

    def saved(self, digest: bytes, group: int, payload: bytes) -> None:
        """Keep on the host what a BlockSave read out; unknown or late ones are ignored."""
        raise NotImplementedError

    def purge(self, salt: str) -> int:
        """Forget everything cached for a tenant, in every tier; running sequences go on unshared.

        Returns:
            how many device blocks were forgotten.
        """
        raise NotImplementedError

    def usage(self) -> KvUsage:
        """Return the figures for metrics."""
        raise NotImplementedError

    def check(self, sequences: Iterable[Holder]) -> None:
        """Prove every book against the live sequences; for tests and for a doubtful moment.

        Raises:
            AssertionError: an invariant does not hold; the message names it.
        """
        raise NotImplementedError
