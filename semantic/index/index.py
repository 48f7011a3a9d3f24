"""All cells of one embedder: rows in, rows out, nearest rows of a partition or a family."""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from semantic.embedders.contract import are_unit
from semantic.index.cell import SWITCH_ROWS, Cell
from semantic.index.flat import FlatCell, Found
from semantic.index.inverted import InvertedCell

Stamp = tuple[int, float]
"""Last change of a row and time of its writing."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored question as the index takes it.

    Attributes:
        stamp: what tells this state of the row from every other.
        vector: of the last turn, fp32, length 1.
        conversation: of the conversation as a whole; None when there are no earlier turns.
    """

    row: int
    stamp: Stamp
    tenant_id: str
    family: bytes
    partition: bytes
    vector: np.ndarray
    conversation: np.ndarray | None = None


@dataclass(slots=True)
class Placed:
    """Where a row lies."""

    stamp: Stamp
    turn: Cell
    conversation: Cell | None


class _Group:
    """What goes into one cell in one go; `known` are the rows that may be in it already."""

    __slots__ = ("known", "rows", "vectors")

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.vectors: list[np.ndarray] = []
        self.known: set[int] = set()

    def add(self, row: int, vector: np.ndarray, *, known: bool) -> None:
        self.rows.append(row)
        self.vectors.append(vector)
        if known:
            self.known.add(row)


class Index:
    """Cells by partition, for last turns, and by family, for conversations.

    One thread changes it; any may search meanwhile, and sees each cell before or after a change, never amidst it.

    Args:
        dimensions: of every vector.
        models: fingerprint of what embeds; an index of another is another index.
        switch_rows: size from which a cell is kept in inverted lists.
    """

    def __init__(self, dimensions: int, models: str, *, switch_rows: int = SWITCH_ROWS) -> None:
        self.dimensions = dimensions
        self.models = models
        self.switch_rows = switch_rows
        self.turns: dict[bytes, Cell] = {}
        self.conversations: dict[bytes, Cell] = {}
        self.placed: dict[int, Placed] = {}
        self._of_tenant: dict[str, set[Cell]] = {}
        self._due: set[Cell] = set()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.placed)

    def __contains__(self, row: int) -> bool:
        return row in self.placed

    def put(self, entries: Sequence[Entry]) -> list[int]:
        """Adds rows, or replaces what was known of them.

        Returns:
            The rows refused, and no longer known, since a vector is misshaped, not finite or not of length 1.
        """
        latest = {entry.row: entry for entry in entries}
        refused = [row for row, entry in latest.items() if not self._fits(entry)]
        for row in refused:
            del latest[row]
            self.remove(row)
        groups: dict[Cell, _Group] = {}
        with self._lock:
            for entry in latest.values():
                self._place(entry, groups)
            for cell, group in groups.items():
                cell.put(group.rows, np.stack(group.vectors), group.known)
                if cell.due:
                    self._due.add(cell)
        return refused

    def remove(self, row: int) -> bool:
        """Deletes a row; false when there is none."""
        with self._lock:
            old = self.placed.pop(row, None)
            if old is not None:
                self._leave(row, old, stays=())
        return old is not None

    def clear(self) -> None:
        """Deletes everything."""
        with self._lock:
            for known in (self.turns, self.conversations, self.placed, self._of_tenant, self._due):
                known.clear()

    def search(self, partition: bytes, vector: np.ndarray, most: int) -> Found:
        """Rows of a partition whose last turn is near, nearest first."""
        cell = self.turns.get(partition)
        return cell.search(_own(vector), most) if cell is not None else []

    def search_conversations(self, family: bytes, vector: np.ndarray, most: int) -> Found:
        """Rows of a family whose conversation is near, nearest first."""
        cell = self.conversations.get(family)
        return cell.search(_own(vector), most) if cell is not None else []

    def near(
        self, tenant_id: str, families: Iterable[bytes], vector: np.ndarray, least: float, most: int
    ) -> Found:
        """Rows of the tenant, in these families or in all, whose last turn is near, nearest first."""
        wanted = set(families)
        with self._lock:
            cells = [cell for cell in self._of_tenant.get(tenant_id, ()) if not wanted or cell.family in wanted]
        found: Found = []
        for cell in cells:
            found += [(row, likeness) for row, likeness in cell.search(_own(vector), most) if likeness >= least]
        return sorted(found, key=lambda pair: -pair[1])[:most]

    def vector_of(self, tenant_id: str, row: int) -> np.ndarray | None:
        """The vector of a row's last turn; None when the tenant has no such row."""
        placed = self.placed.get(row)
        return placed.turn.vector_of(row) if placed is not None and placed.turn.tenant_id == tenant_id else None

    def cells(self) -> list[Cell]:
        """All cells, last turns first."""
        with self._lock:
            return [*self.turns.values(), *self.conversations.values()]

    def next_due(self) -> Cell | None:
        """A cell to rebuild, told once."""
        with self._lock:
            return self._due.pop() if self._due else None

    def adopt(self, turn: bool, cell: Cell) -> None:
        """Takes a filled cell of a snapshot; `placed` is the caller's to fill."""
        (self.turns if turn else self.conversations)[cell.key] = cell
        if turn:
            self._of_tenant.setdefault(cell.tenant_id, set()).add(cell)

    def _fits(self, entry: Entry) -> bool:
        vectors = [entry.vector] if entry.conversation is None else [entry.vector, entry.conversation]
        return all(one.shape == (self.dimensions,) for one in vectors) and bool(are_unit(np.stack(vectors)).all())

    def _place(self, entry: Entry, groups: dict[Cell, "_Group"]) -> None:
        """Notes what goes into which cell, and takes the row out of those that it leaves."""
        old = self.placed.get(entry.row)
        turn = self._cell(self.turns, entry, entry.partition)
        groups.setdefault(turn, _Group()).add(entry.row, entry.vector, known=old is not None)
        whole = None
        if entry.conversation is not None:
            whole = self._cell(self.conversations, entry, entry.family)
            groups.setdefault(whole, _Group()).add(entry.row, entry.conversation, known=old is not None)
        self.placed[entry.row] = Placed(entry.stamp, turn, whole)
        if old is not None:
            self._leave(entry.row, old, stays=(turn, whole))

    def _cell(self, cells: dict[bytes, Cell], entry: Entry, key: bytes) -> Cell:
        cell = cells.get(key)
        if cell is None:
            cell = cells[key] = self.new_cell(FlatCell(self.dimensions), entry.tenant_id, entry.family, key)
            if cells is self.turns:
                self._of_tenant.setdefault(entry.tenant_id, set()).add(cell)
        return cell

    def new_cell(self, inner: FlatCell | InvertedCell, tenant_id: str, family: bytes, key: bytes) -> Cell:
        """Makes a cell of this index, not yet in it."""
        return Cell(inner, tenant_id=tenant_id, family=family, key=key, switch_rows=self.switch_rows)

    def _leave(self, row: int, old: Placed, stays: tuple[Cell | None, ...]) -> None:
        """Takes a row out of the cells it was in, and drops cells that are empty."""
        for cells, cell in ((self.turns, old.turn), (self.conversations, old.conversation)):
            if cell is None or any(cell is kept for kept in stays):
                continue
            cell.remove(row)
            if not len(cell) and cells.get(cell.key) is cell:
                del cells[cell.key]
                self._due.discard(cell)
                self._of_tenant.get(cell.tenant_id, set()).discard(cell)
        if not self._of_tenant.get(old.turn.tenant_id, True):
            del self._of_tenant[old.turn.tenant_id]


def _own(vector: np.ndarray) -> np.ndarray:
    """The vector as FAISS reads it: contiguous fp32."""
    return np.ascontiguousarray(vector, np.float32)
