"""What scheduler, KV cache and runner say to each other about blocks."""

from dataclasses import dataclass
from typing import Protocol

from engine.kv.wishes import CacheWishes, PrefixOutcome

NULL_BLOCK = -1
"""Stands in a table where a block has left the attention window; never read, never written."""


@dataclass(frozen=True, slots=True)
class KvGroup:
    """Layers whose KV blocks live and die together.

    Attributes:
        layers: their indices in the model.
        window: tokens a query may look back, itself included; None for all of them.
    """

    layers: tuple[int, ...]
    window: int | None = None


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """Copy the first `tokens` slots of one block to another, in every layer of the group."""

    group: int
    source: int
    target: int
    tokens: int


@dataclass(frozen=True, slots=True)
class BlockSave:
    """Read a block out to the host before the step overwrites it; `digest` names what it holds."""

    group: int
    block: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class BlockRestore:
    """Write what the host kept under `digest` into a block before the step reads it."""

    group: int
    block: int
    digest: bytes
    payload: bytes


@dataclass(frozen=True, slots=True)
class Transfers:
    """What moves between blocks before a step computes; carried out in the order of the fields."""

    saves: tuple[BlockSave, ...] = ()
    restores: tuple[BlockRestore, ...] = ()
    copies: tuple[BlockCopy, ...] = ()


class Holder(Protocol):
    """A sequence as the KV cache sees it; `engine.sequence.Sequence` is one.

    Attributes:
        priority: lower is more important; its blocks are kept longer too.
        num_computed: tokens whose keys and values are in the blocks.
        write_from: first position the next step may store; what lies before it is in place already.
        tables: a block table per KV group, blocks in token order; empty unless it holds blocks.
        prefix: what its first look-up found.
        hit_unit: 1, or a multiple of the block size: a hit counts in whole multiples of so many tokens, and what
            is cached behind is computed again into blocks of its own.
        cache_upto: no block with a token at or behind this position is cached for others.
    """

    seq_id: int
    prompt_ids: tuple[int, ...]
    output_ids: list[int]
    cache: CacheWishes
    priority: int
    num_computed: int
    write_from: int
    tables: list[list[int]]
    prefix: PrefixOutcome | None
    hit_unit: int
    cache_upto: int


class KvStore(Protocol):
    """The memory behind the blocks; `engine.attention.paged.PagedKV` is one."""

    def copy(self, copies: tuple[BlockCopy, ...]) -> None:
        """Copy slots between blocks."""
        ...

    def read_block(self, group: int, block: int) -> bytes:
        """Return the bytes of a block, every layer of the group, scales included."""
        ...

    def write_block(self, group: int, block: int, payload: bytes) -> None:
        """Put back what `read_block` returned, bit for bit."""
        ...

    def block_bytes(self, group: int) -> int:
        """Bytes of one block over all layers of the group."""
        ...
