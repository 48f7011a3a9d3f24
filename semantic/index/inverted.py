"""Many vectors in inverted lists: approximate, with the recall measured on the vectors themselves.

N vectors, D dimensions, L lists. A table from row to list makes deletes real and cheap: the last of the list takes
the deleted one's place, so there are no tombstones. Source: Jégou et al. 2011 (IVF), as FAISS implements it.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Self

import faiss
import numpy as np

from semantic.index.flat import Found

_SAMPLE_PER_LIST = 32
_ROUNDS = 6
_PROBES = (4, 8, 16, 32, 64, 128, 256)
_WANTED_RECALL = 0.995
_TRIALS = 128
_NEIGHBOURS = 10
_NOISE = 0.35
"""Length of the noise added to stored vectors to make questions for the trial: a cosine of about 0.94."""


@dataclass(frozen=True, slots=True)
class Training:
    """What building took long to find, so that a snapshot can keep it.

    Attributes:
        centroids: fp32 [L, D].
        probes: lists searched per question.
        trained_on: how many vectors there were.
    """

    centroids: np.ndarray
    probes: int
    trained_on: int


class InvertedCell:
    """Vectors in lists by their nearest centroid. One thread at a time."""

    __slots__ = ("_index", "_keep_alive", "training")

    def __init__(self, training: Training) -> None:
        lists, dimensions = training.centroids.shape
        quantizer = faiss.IndexFlatIP(dimensions)
        quantizer.add(training.centroids)
        self._index = faiss.IndexIVFFlat(quantizer, dimensions, lists, faiss.METRIC_INNER_PRODUCT)
        self._index.is_trained = True
        self._index.nprobe = min(training.probes, lists)
        self._index.set_direct_map_type(faiss.DirectMap.Hashtable)  # type: ignore[attr-defined]
        self._keep_alive = quantizer
        self.training = training

    @classmethod
    def build(cls, rows: np.ndarray, vectors: np.ndarray, threads: int) -> Self:
        """Trains on the vectors, adds them, and searches as many lists as the wanted recall takes."""
        faiss.omp_set_num_threads(threads)
        made = cls(Training(_centroids(vectors), _PROBES[0], len(rows)))
        made.fill(rows, vectors, made.lists_of(vectors))
        probes = made._tuned(vectors)
        made.training = Training(made.training.centroids, probes, len(rows))
        return made

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def put(self, rows: Sequence[int], vectors: np.ndarray, known: Collection[int]) -> None:
        """Adds rows, each once, or replaces their vectors; `known` are those that may be in the cell already."""
        for row in known:
            self.remove(row)
        faiss.omp_set_num_threads(1)
        self._index.add_with_ids(np.ascontiguousarray(vectors, np.float32), np.array(rows, np.int64))

    def remove(self, row: int) -> bool:
        """Deletes a row; false when there is none."""
        which = np.array([row], np.int64)
        return bool(self._index.remove_ids(faiss.IDSelectorArray(1, faiss.swig_ptr(which))))

    def search(self, vector: np.ndarray, most: int) -> Found:
        """Rows near the vector, at most so many."""
        faiss.omp_set_num_threads(1)
        products, rows = self._index.search(vector.reshape(1, -1), most)
        pairs = zip(rows[0].tolist(), products[0].tolist(), strict=True)
        return [(row, product) for row, product in pairs if row >= 0]

    def vector_of(self, row: int) -> np.ndarray | None:
        """A row's vector, or None when there is no such row."""
        try:
            return np.asarray(self._index.reconstruct(row))
        except RuntimeError:
            return None

    def contents(self) -> tuple[np.ndarray, np.ndarray]:
        """A copy of all rows, int64 [N], and vectors, fp32 [N, D], list by list."""
        lists, dimensions = self.training.centroids.shape
        rows, vectors = [np.empty(0, np.int64)], [np.empty((0, dimensions), np.float32)]
        stored: Any = self._index.invlists
        for number in range(lists):
            size = stored.list_size(number)
            if size:
                codes = faiss.rev_swig_ptr(stored.get_codes(number), size * dimensions * 4)
                rows.append(faiss.rev_swig_ptr(stored.get_ids(number), size).copy())
                vectors.append(codes.view(np.float32).reshape(size, dimensions).copy())
        return np.concatenate(rows), np.concatenate(vectors)

    def lists_of(self, vectors: np.ndarray) -> np.ndarray:
        """The list each vector belongs to, int64 [N]."""
        _, lists = self._keep_alive.search(vectors, 1)
        return np.ascontiguousarray(lists[:, 0], np.int64)

    def fill(self, rows: np.ndarray, vectors: np.ndarray, lists: np.ndarray) -> None:
        """Puts many rows into an empty cell, given the list of each."""
        vectors, rows, lists = (
            np.ascontiguousarray(value, dtype)
            for value, dtype in ((vectors, np.float32), (rows, np.int64), (lists, np.int64))
        )
        pointers = (faiss.swig_ptr(vectors), faiss.swig_ptr(rows), faiss.swig_ptr(lists))
        self._index.add_core(len(rows), *pointers)

    def _tuned(self, vectors: np.ndarray) -> int:
        """The fewest lists to search for the wanted recall."""
        draw = np.random.default_rng(1)
        asked = vectors[draw.integers(0, len(vectors), min(_TRIALS, len(vectors)))]
        noise = draw.normal(0, _NOISE / math.sqrt(vectors.shape[1]), asked.shape)
        asked = np.ascontiguousarray(asked + noise, np.float32)
        truth, _ = faiss.knn(asked, vectors, _NEIGHBOURS, metric=faiss.METRIC_INNER_PRODUCT)
        lists = len(self.training.centroids)
        for probes in _PROBES:
            self._index.nprobe = min(probes, lists)
            found, _ = self._index.search(asked, _NEIGHBOURS)
            if (found >= truth - 1e-5).mean() >= _WANTED_RECALL or probes >= lists:
                break
        return int(self._index.nprobe)


def _centroids(vectors: np.ndarray) -> np.ndarray:
    size, dimensions = vectors.shape
    lists = max(1, 2 * math.isqrt(size))
    sample = vectors
    if size > _SAMPLE_PER_LIST * lists:
        chosen = np.random.default_rng(2).choice(size, _SAMPLE_PER_LIST * lists, replace=False)
        sample = vectors[np.sort(chosen)]
    means = faiss.Kmeans(dimensions, lists, niter=_ROUNDS, spherical=True, seed=3, min_points_per_centroid=1)
    means.train(np.ascontiguousarray(sample, np.float32))
    return np.asarray(means.centroids, np.float32)
