"""The index as arrays and back: small cells by the thousand in one chunk, a large one with its lists alone.

R rows of a chunk, C cells, D dimensions, L lists. Each chunk `k` has `cells.k` uint8 [C, 65] (key, family, whether
of last turns), `tenants.k` uint8 (their ids as JSON, one per cell), `sizes.k` int64 [C], `rows.k` and `changed.k`
int64 [R], `created.k` float64 [R], `vectors.k` float32 [R, D]; that of a large cell `centroids.k` float32 [L, D],
`lists.k` int64 [R] and `training.k` int64 [2] too.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
import numpy as np

from semantic.embedders.contract import are_unit
from semantic.index.cell import Cell
from semantic.index.flat import FlatCell
from semantic.index.index import Index, Placed, Stamp
from semantic.index.inverted import InvertedCell, Training
from semantic.index.snapshot import SnapshotError

_CHUNK_ROWS = 65_536
_DIGEST = 32
_UNKNOWN: Stamp = (-1, 0.0)
"""Of a row that left the index while it was packed; it equals no row's."""


def pack(index: Index) -> Iterator[tuple[str, np.ndarray]]:
    """The index as arrays, while it changes: a row may be missing or be of a later moment, but is whole."""
    small: list[tuple[Cell, np.ndarray, np.ndarray]] = []
    number = rows = 0
    turns = set(map(id, index.turns.copy().values()))
    for cell in index.cells():
        found, vectors, large = cell.contents()
        if large is not None:
            yield from _packed(number, index, [(cell, found, vectors)], turns)
            yield from _packed_lists(number, large, vectors)
            number += 1
            continue
        small.append((cell, found, vectors))
        rows += len(found)
        if rows >= _CHUNK_ROWS:
            yield from _packed(number, index, small, turns)
            number, rows, small = number + 1, 0, []
    if small:
        yield from _packed(number, index, small, turns)


def unpack(arrays: Mapping[str, np.ndarray], index: Index) -> None:
    """Fills an empty index.

    Raises:
        SnapshotError: the arrays do not fit each other; the index is to be thrown away.
    """
    number = 0
    try:
        while f"cells.{number}" in arrays:
            _unpack_chunk({name: arrays[f"{name}.{number}"] for name in _names(arrays, number)}, index)
            number += 1
    except (KeyError, ValueError, IndexError, RuntimeError) as error:
        raise SnapshotError(f"its arrays do not fit: {type(error).__name__} {error}") from error


def _packed(
    number: int, index: Index, cells: Iterable[tuple[Cell, np.ndarray, np.ndarray]], turns: set[int]
) -> Iterator[tuple[str, np.ndarray]]:
    cells = [one for one in cells if len(one[0].key) == len(one[0].family) == _DIGEST and len(one[1])]
    rows = np.concatenate([np.empty(0, np.int64), *(found for _, found, _ in cells)])
    stamps = [placed.stamp if (placed := index.placed.get(row)) else _UNKNOWN for row in rows.tolist()]
    heads = b"".join(cell.key + cell.family + bytes([id(cell) in turns]) for cell, _, _ in cells)
    tenants = msgspec.json.encode([cell.tenant_id for cell, _, _ in cells])
    yield f"cells.{number}", np.frombuffer(heads, np.uint8).reshape(len(cells), 2 * _DIGEST + 1)
    yield f"tenants.{number}", np.frombuffer(tenants, np.uint8)
    yield f"sizes.{number}", np.array([len(found) for _, found, _ in cells], np.int64)
    yield f"rows.{number}", rows
    yield f"changed.{number}", np.array([changed for changed, _ in stamps], np.int64)
    yield f"created.{number}", np.array([created for _, created in stamps], np.float64)
    none = np.empty((0, index.dimensions), np.float32)
    yield f"vectors.{number}", np.concatenate([none, *(vectors for _, _, vectors in cells)])


def _packed_lists(number: int, large: InvertedCell, vectors: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    training = large.training
    yield f"centroids.{number}", training.centroids
    yield f"lists.{number}", large.lists_of(vectors)
    yield f"training.{number}", np.array([training.probes, training.trained_on], np.int64)


def _names(arrays: Mapping[str, np.ndarray], number: int) -> list[str]:
    names = ["cells", "tenants", "sizes", "rows", "changed", "created", "vectors"]
    return [*names, "centroids", "lists", "training"] if f"lists.{number}" in arrays else names


def _unpack_chunk(chunk: Mapping[str, np.ndarray], index: Index) -> None:
    heads, sizes, rows, vectors = (chunk[name] for name in ("cells", "sizes", "rows", "vectors"))
    tenants = msgspec.json.decode(chunk["tenants"].tobytes(), type=list[str])
    shapes = (heads.shape, vectors.shape, chunk["changed"].shape, chunk["created"].shape, len(tenants))
    wanted = ((len(sizes), 2 * _DIGEST + 1), (len(rows), index.dimensions), rows.shape, rows.shape, len(sizes))
    if shapes != wanted or (len(sizes) and sizes.min() < 1) or sizes.sum() != len(rows):
        raise ValueError(f"shapes {shapes}")
    if not are_unit(vectors).all() or ("lists" in chunk and len(sizes) != 1):
        raise ValueError("vectors")
    stamps = list(zip(chunk["changed"].tolist(), chunk["created"].tolist(), strict=True))
    ends = np.cumsum(sizes)
    for number, (head, tenant_id, end) in enumerate(zip(heads, tenants, ends.tolist(), strict=True)):
        span = slice(end - int(sizes[number]), end)
        key, family = head[:_DIGEST].tobytes(), head[_DIGEST:-1].tobytes()
        inner = _filled(chunk, rows[span], vectors[span])
        cell = index.new_cell(inner, tenant_id, family, key)
        _adopt(index, cell, bool(head[-1]), rows[span].tolist(), stamps[span])


def _filled(chunk: Mapping[str, np.ndarray], rows: np.ndarray, vectors: np.ndarray) -> FlatCell | InvertedCell:
    if "lists" not in chunk:
        flat = FlatCell(vectors.shape[1])
        flat.fill(rows.copy(), vectors.copy())
        return flat
    centroids, lists = np.array(chunk["centroids"], np.float32), chunk["lists"]
    probes, trained_on = chunk["training"].tolist()
    fits = centroids.ndim == 2 and centroids.shape[1] == vectors.shape[1] and lists.shape == rows.shape  # noqa: PLR2004
    if not fits or probes < 1 or lists.min() < 0 or lists.max() >= len(centroids):
        raise ValueError("lists")
    inverted = InvertedCell(Training(centroids, probes, trained_on))
    inverted.fill(rows, vectors, lists)
    return inverted


def _adopt(index: Index, cell: Cell, turn: bool, rows: list[int], stamps: list[Stamp]) -> None:
    if cell.key in (index.turns if turn else index.conversations) or len(set(rows)) != len(rows):
        raise ValueError("a cell or a row is there twice")
    index.adopt(turn, cell)
    for row, stamp in zip(rows, stamps, strict=True):
        placed = index.placed.get(row)
        if turn and placed is None:
            index.placed[row] = Placed(stamp, cell, None)
        elif not turn and placed is not None and placed.conversation is None:
            placed.conversation = cell
        elif turn:
            raise ValueError("a row is in two partitions")
        else:
            cell.remove(row)
