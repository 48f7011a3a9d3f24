"""One partition or family: flat while small, inverted lists when large, rebuilt behind while it serves."""

import threading
from collections.abc import Collection, Sequence

import numpy as np

from semantic.index.flat import FlatCell, Found
from semantic.index.inverted import InvertedCell

SWITCH_ROWS = 4096
"""Up to here comparing all is as fast as searching lists, and exact."""

_RETRAIN_FACTOR = 4
_SHRINK_FACTOR = 4


class Cell:
    """Rows that may answer each other; every method may be called from any thread.

    Attributes:
        tenant_id, family: whose rows these are.
        key: partition or family, by which the cell is found.
    """

    __slots__ = ("_inner", "_journal", "_lock", "_switch_rows", "family", "key", "tenant_id")

    def __init__(
        self, inner: FlatCell | InvertedCell, *, tenant_id: str, family: bytes, key: bytes, switch_rows: int
    ) -> None:
        self.tenant_id = tenant_id
        self.family = family
        self.key = key
        self._inner = inner
        self._switch_rows = switch_rows
        self._lock = threading.Lock()
        self._journal: list[tuple[Sequence[int], np.ndarray | None]] | None = None

    def __len__(self) -> int:
        return len(self._inner)

    @property
    def kind(self) -> str:
        """How it is searched: `flat` or `inverted`."""
        return "flat" if isinstance(self._inner, FlatCell) else "inverted"

    @property
    def due(self) -> bool:
        """Whether the cell has outgrown the way it is kept."""
        size = len(self._inner)
        if isinstance(self._inner, InvertedCell):
            trained = self._inner.training.trained_on
            return size > _RETRAIN_FACTOR * trained or size * _SHRINK_FACTOR < min(trained, self._switch_rows)
        return size > self._switch_rows

    def put(self, rows: Sequence[int], vectors: np.ndarray, known: Collection[int]) -> None:
        """Adds rows, each once, or replaces their vectors; `known` are those that may be in the cell already."""
        with self._lock:
            self._inner.put(rows, vectors, known)
            if self._journal is not None:
                self._journal.append((rows, vectors))

    def remove(self, row: int) -> bool:
        """Deletes a row; false when there is none."""
        with self._lock:
            if self._journal is not None:
                self._journal.append(([row], None))
            return self._inner.remove(row)

    def search(self, vector: np.ndarray, most: int) -> Found:
        """Rows near the vector, nearest first."""
        with self._lock:
            return self._inner.search(vector, most)

    def vector_of(self, row: int) -> np.ndarray | None:
        """A row's vector, or None."""
        with self._lock:
            return self._inner.vector_of(row)

    def contents(self) -> tuple[np.ndarray, np.ndarray, InvertedCell | None]:
        """A copy of rows and vectors, and the cell that knows their lists when there are any."""
        with self._lock:
            rows, vectors = self._inner.contents()
            return rows, vectors, self._inner if isinstance(self._inner, InvertedCell) else None

    def rebuild(self, threads: int) -> None:
        """Rebuilds from the contents in the way that suits their number; what changes meanwhile is not lost.

        One call at a time.
        """
        with self._lock:
            self._journal = []
            rows, vectors = self._inner.contents()
        try:
            fresh = self._fresh(rows, vectors, threads)
        except BaseException:
            with self._lock:
                self._journal = None
            raise
        with self._lock:
            for changed, added in self._journal:
                if added is None:
                    fresh.remove(changed[0])
                else:
                    fresh.put(changed, added, set(changed))
            self._inner, self._journal = fresh, None

    def _fresh(self, rows: np.ndarray, vectors: np.ndarray, threads: int) -> FlatCell | InvertedCell:
        if len(rows) > self._switch_rows:
            return InvertedCell.build(rows, vectors, threads)
        flat = FlatCell(vectors.shape[1])
        if len(rows):
            flat.fill(rows, vectors)
        return flat
