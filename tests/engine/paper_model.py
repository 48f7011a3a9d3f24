"""A model on paper: its "keys and values" say which tokens they were computed from, so every wrong block shows."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from engine.kv.contract import KvGroup, Transfers
from engine.sequence import Sequence
from engine.work import Plan, Work

VOCAB = 12
_EMPTY = -1
_SLOT = struct.Struct("<q")


def mark(tokens: list[int]) -> int:
    """What is stored for the last of these tokens: a word for all of them."""
    return hash(tuple(tokens)) & 0x7FFFFFFFFFFFFFFF


def next_token(tokens: list[int]) -> int:
    """The greedy next token after these."""
    return mark([*tokens, 99]) % VOCAB


@dataclass
class PaperStore:
    """A `KvStore` of words."""

    num_blocks: tuple[int, ...]
    block_size: int
    slots: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        """Start with nothing stored."""
        self.slots = [[_EMPTY] * (count * self.block_size) for count in self.num_blocks]

    def read_block(self, group: int, block: int) -> bytes:
        """The words of a block."""
        start = block * self.block_size
        return b"".join(map(_SLOT.pack, self.slots[group][start : start + self.block_size]))

    def write_block(self, group: int, block: int, payload: bytes) -> None:
        """Put them back."""
        words = [word for (word,) in _SLOT.iter_unpack(payload)]
        start = block * self.block_size
        self.slots[group][start : start + self.block_size] = words


@dataclass
class PaperRunner:
    """Runs plans, and checks that each token looks back at exactly its own past.

    Attributes:
        saved: where saved blocks go.
        fail: called before the transfers of a step and before its work; may raise.
        poison: sequences whose logits become NaN.
    """

    groups: tuple[KvGroup, ...]
    store: PaperStore
    saved: Callable[[bytes, int, bytes], None]
    fail: Callable[[], None] = lambda: None
    poison: Callable[[Sequence], bool] = lambda _: False
    any_chunks: bool = True

    def run(self, plan: Plan) -> torch.Tensor:
        """Move, write, look back; logits of the greedy token."""
        self.fail()
        self._transfer(plan.transfers)
        self.fail()
        rows = [row for item in plan.work for row in self._compute(item)]
        logits = torch.zeros(len(rows), VOCAB)
        for row, token in enumerate(rows):
            logits[row] = torch.nan if token is None else logits[row]
            if token is not None:
                logits[row, token] = 1
        return logits

    def _transfer(self, transfers: Transfers) -> None:
        size = self.store.block_size
        for save in transfers.saves:
            self.saved(save.digest, save.group, self.store.read_block(save.group, save.block))
        for restore in transfers.restores:
            self.store.write_block(restore.group, restore.block, restore.payload)
        for copy in transfers.copies:
            slots = self.store.slots[copy.group]
            source = slots[copy.source * size : copy.source * size + copy.tokens]
            slots[copy.target * size : copy.target * size + copy.tokens] = source

    def _compute(self, item: Work) -> list[int | None]:
        sequence, end = item.sequence, item.start + item.count
        tokens = sequence.tokens(0, end)
        marks = [mark(tokens[: position + 1]) for position in range(end)]
        for group, (spec, table) in enumerate(zip(self.groups, sequence.tables, strict=True)):
            slots = self.store.slots[group]
            for position in range(max(item.start, item.write_from), end):
                slots[self._slot(table, position)] = marks[position]
            first = 0 if spec.window is None else max(0, item.start + 1 - spec.window)
            for position in range(first, end):
                if slots[self._slot(table, position)] != marks[position]:
                    raise AssertionError(
                        f"sequence {sequence.seq_id} finds another's past at {position}, group {group}"
                    )
        if not item.samples:
            return []
        return [None if self.poison(sequence) else next_token(tokens)]

    def _slot(self, table: list[int], position: int) -> int:
        block = table[position // self.store.block_size]
        if block < 0:
            raise AssertionError(f"position {position} is looked at and has no block")
        return block * self.store.block_size + position % self.store.block_size
