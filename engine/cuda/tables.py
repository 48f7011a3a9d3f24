"""Block tables of live sequences, kept on the device: only what has changed since the last step travels.

Legend: P places (one sequence's row each, and a last one for padding), W blocks of the longest table.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from engine.errors import EngineError


@dataclass(frozen=True, slots=True)
class TableShape:
    """How much the tables hold.

    Attributes:
        places: sequences whose tables are kept at once.
        width: W.
        null_blocks: of each KV group, the block that padding points at.
    """

    places: int
    width: int
    null_blocks: tuple[int, ...]


@dataclass(slots=True)
class _Place:
    row: int
    tables: list[list[int]]


@dataclass(slots=True)
class _Changes:
    """Entries of one group's tensor to be written."""

    at: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)


class DeviceTables:
    """Keeps, per KV group, int32 [P, W] on the device equal to the sequences' own tables.

    Attributes:
        tensors: one per group; their storage never moves, so graphs may read it.
        padding: the place whose table is nothing but null blocks.
    """

    def __init__(self, shape: TableShape, device: str) -> None:
        self._shape = shape
        self.padding = shape.places
        self.tensors = tuple(
            torch.full((shape.places + 1, shape.width), null, dtype=torch.int32, device=device)
            for null in shape.null_blocks
        )
        self._places: dict[int, _Place] = {}
        self._free = list(range(shape.places))

    def place(self, live: Sequence[tuple[int, Sequence[Sequence[int]]]]) -> list[int]:
        """Bring the tables of these sequences up to date and return their places.

        Args:
            live: sequence ids, all different, and their tables, one per group.

        Raises:
            EngineError: there are more of them than places, or a table is too long.
        """
        wanted = {seq_id for seq_id, _ in live}
        if len(wanted) > self._shape.places:
            raise EngineError(f"a step of {len(wanted)} sequences has more than {self._shape.places} places")
        changes = tuple(_Changes() for _ in self.tensors)
        rows = [self._update(seq_id, tables, wanted, changes) for seq_id, tables in live]
        for tensor, change in zip(self.tensors, changes, strict=True):
            if change.at:
                at, blocks = torch.tensor(change.at), torch.tensor(change.blocks, dtype=torch.int32)
                tensor.view(-1).index_copy_(0, at.to(tensor.device), blocks.to(tensor.device))
        return rows

    def _update(
        self, seq_id: int, tables: Sequence[Sequence[int]], wanted: set[int], changes: tuple[_Changes, ...]
    ) -> int:
        place = self._places.pop(seq_id, None) or _Place(self._vacant(wanted), [[] for _ in self.tensors])
        self._places[seq_id] = place  # behind all others: the first is the one not seen for longest
        for group, table in enumerate(tables):
            known = place.tables[group]
            if known == table:
                continue
            if len(table) > self._shape.width:
                raise EngineError(f"a table of {len(table)} blocks has more than {self._shape.width}")
            kept = len(known) if known == table[: len(known)] else 0
            base = place.row * self._shape.width
            changes[group].at += range(base + kept, base + len(table))
            changes[group].blocks += table[kept:]
            place.tables[group] = list(table)
        return place.row

    def _vacant(self, wanted: set[int]) -> int:
        if self._free:
            return self._free.pop()
        oldest = next(seq_id for seq_id in self._places if seq_id not in wanted)
        return self._places.pop(oldest).row
