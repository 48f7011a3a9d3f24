"""A few vectors, compared one by one: exact, and cheap by the thousand cells.

N vectors, D dimensions.
"""

from collections.abc import Collection, Sequence

import faiss
import numpy as np

Found = list[tuple[int, float]]
"""Row and cosine, nearest first."""

_FIRST_ROOM = 1


class FlatCell:
    """Vectors in one matrix; a deleted one is overwritten by the last. One thread at a time."""

    __slots__ = ("_rows", "_size", "_vectors")

    def __init__(self, dimensions: int) -> None:
        self._rows = np.empty(_FIRST_ROOM, np.int64)
        self._vectors = np.empty((_FIRST_ROOM, dimensions), np.float32)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(self, rows: Sequence[int], vectors: np.ndarray, known: Collection[int]) -> None:
        """Adds rows, each once, or replaces their vectors; `known` are those that may be in the cell already."""
        fresh = []
        for number, row in enumerate(rows):
            at = self._find(row) if row in known else None
            if at is None:
                fresh.append(number)
            else:
                self._vectors[at] = vectors[number]
        end = self._size + len(fresh)
        if end > len(self._rows):
            self._grow(max(end, 2 * self._size))
        self._rows[self._size : end] = [rows[number] for number in fresh]
        self._vectors[self._size : end] = vectors[fresh]
        self._size = end

    def remove(self, row: int) -> bool:
        """Deletes a row; false when there is none."""
        at = self._find(row)
        if at is None:
            return False
        self._size -= 1
        self._rows[at] = self._rows[self._size]
        self._vectors[at] = self._vectors[self._size]
        if self._size <= len(self._rows) // 4:
            self._grow(max(_FIRST_ROOM, len(self._rows) // 2))
        return True

    def search(self, vector: np.ndarray, most: int) -> Found:
        """The nearest rows, at most so many."""
        size = self._size
        if not size:
            return []
        products = np.empty(size, np.float32)
        pointers = (faiss.swig_ptr(products), faiss.swig_ptr(vector), faiss.swig_ptr(self._vectors))
        faiss.fvec_inner_products_ny(*pointers, self._vectors.shape[1], size)  # type: ignore[attr-defined]
        best = np.argpartition(products, -most)[-most:] if most < size else np.arange(size)
        best = best[np.argsort(-products[best], kind="stable")]
        return [(int(self._rows[at]), float(products[at])) for at in best]

    def vector_of(self, row: int) -> np.ndarray | None:
        """A row's vector, or None when there is no such row."""
        at = self._find(row)
        return None if at is None else self._vectors[at].copy()

    def contents(self) -> tuple[np.ndarray, np.ndarray]:
        """A copy of all rows, int64 [N], and vectors, fp32 [N, D]."""
        return self._rows[: self._size].copy(), self._vectors[: self._size].copy()

    def fill(self, rows: np.ndarray, vectors: np.ndarray) -> None:
        """Puts many rows into an empty cell; the arrays become the cell's own."""
        self._rows = np.ascontiguousarray(rows, np.int64)
        self._vectors = np.ascontiguousarray(vectors, np.float32)
        self._size = len(rows)

    def _find(self, row: int) -> int | None:
        at = np.flatnonzero(self._rows[: self._size] == row)
        return int(at[0]) if len(at) else None

    def _grow(self, room: int) -> None:
        rows, vectors = np.empty(room, np.int64), np.empty((room, self._vectors.shape[1]), np.float32)
        rows[: self._size] = self._rows[: self._size]
        vectors[: self._size] = self._vectors[: self._size]
        self._rows, self._vectors = rows, vectors
