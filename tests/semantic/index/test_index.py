"""The index: exact while small, recall while large, deletes that delete, and searches while it changes."""

import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semantic.index.cell import Cell
from semantic.index.flat import FlatCell
from semantic.index.index import Entry, Index
from semantic.index.inverted import InvertedCell
from semantic.index.keeper import Keeper
from semantic.index.snapshot import Origin
from tests.semantic.index.clusters import clustered, unit

D = 16
ORIGIN = Origin("m", D, "d")


def entry(row: int, vector: np.ndarray, partition: bytes = b"p" * 32, **more: np.ndarray) -> Entry:
    """A row of tenant `t` in family `f`."""
    return Entry(row, (row, 0.0), "t", b"f" * 32, partition, vector, **more)


def some(count: int, seed: int = 5) -> np.ndarray:
    """Unit vectors without any order."""
    return unit(np.random.default_rng(seed).normal(size=(count, D)))


def rebuilt(index: Index) -> None:
    """Rebuilds what is due, as the keeper does behind."""
    Keeper(index, None, ORIGIN, lambda: 0).rebuild_due()


@pytest.mark.parametrize("switch_rows", [1000, 8])
def test_a_deleted_row_is_gone_and_the_next_nearest_takes_its_place(switch_rows: int) -> None:
    vectors = some(101)
    index = Index(D, "m", switch_rows=switch_rows)
    near = unit(vectors[0] + 0.01 * some(100, 6))
    index.put([entry(row, near[row]) for row in range(100)])
    index.put([entry(1000, vectors[100])])
    rebuilt(index)
    assert index.turns[b"p" * 32].kind == ("flat" if switch_rows > 101 else "inverted")
    for row in range(100):
        assert index.remove(row)
    assert not index.remove(5)
    assert len(index) == len(index.turns[b"p" * 32]) == 1
    assert [row for row, _ in index.search(b"p" * 32, vectors[0], 10)] == [1000]
    index.remove(1000)
    assert index.turns == {}
    assert index.search(b"p" * 32, vectors[0], 10) == []


def test_fewer_rows_than_asked_for_never_yield_row_minus_one() -> None:
    vectors = some(20)
    inverted = InvertedCell.build(np.arange(20), vectors, 1)
    found = inverted.search(vectors[0], 50)
    assert 0 < len(found) <= 20
    assert all(row >= 0 for row, _ in found)
    assert len(FlatCell(D).search(vectors[0], 5)) == 0


@pytest.mark.parametrize(
    "bad",
    [np.zeros(D), np.full(D, np.nan), np.full(D, np.inf), np.ones(D), np.eye(1, D - 1)[0], np.eye(1, D + 1)[0]],
)
def test_a_vector_without_direction_is_refused_and_what_was_known_is_gone(bad: np.ndarray) -> None:
    index = Index(D, "m")
    good = some(2)
    assert index.put([entry(1, good[0]), entry(2, good[1])]) == []
    assert index.put([entry(1, bad.astype(np.float32))]) == [1]
    assert 1 not in index
    assert index.put([entry(3, good[0], conversation=bad.astype(np.float32))]) == [3]
    assert [row for row, _ in index.search(b"p" * 32, good[1], 5)] == [2]


def test_partitions_families_and_tenants_see_their_own_only() -> None:
    vectors = some(3)
    index = Index(D, "m")
    index.put(
        [entry(1, vectors[0]), entry(2, vectors[0], b"q" * 32), entry(3, vectors[1], conversation=vectors[2])]
    )
    assert [row for row, _ in index.search(b"q" * 32, vectors[0], 9)] == [2]
    assert [row for row, _ in index.search_conversations(b"f" * 32, vectors[2], 9)] == [3]
    assert index.search_conversations(b"g" * 32, vectors[2], 9) == []
    assert {row for row, _ in index.near("t", [], vectors[0], 0.99, 9)} == {1, 2}
    assert index.near("t", [b"g" * 32], vectors[0], 0.99, 9) == []
    assert index.near("u", [], vectors[0], -1, 9) == []
    assert index.vector_of("u", 1) is None
    np.testing.assert_array_equal(index.vector_of("t", 1), vectors[0])


def test_a_row_that_moves_leaves_nothing_behind() -> None:
    vectors = some(2)
    index = Index(D, "m")
    index.put([entry(1, vectors[0], conversation=vectors[1])])
    index.put([entry(1, vectors[1], b"q" * 32)])
    assert index.search(b"p" * 32, vectors[0], 9) == []
    assert index.search_conversations(b"f" * 32, vectors[1], 9) == []
    assert set(index.turns) == {b"q" * 32}
    assert {row for row, _ in index.near("t", [], vectors[1], -1, 9)} == {1}


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3), st.booleans()), max_size=120))
@settings(max_examples=60)
def test_whatever_is_put_and_removed_the_index_holds_what_a_dict_holds(
    steps: list[tuple[int, int, bool]],
) -> None:
    vectors = some(31)
    index, held = Index(D, "m", switch_rows=6), dict[int, int]()
    for row, place, stays in steps:
        if stays:
            index.put([entry(row, vectors[row], bytes([place]) * 32)])
            held[row] = place
        else:
            assert index.remove(row) == (held.pop(row, None) is not None)
        rebuilt(index)
    for place in range(4):
        found = index.search(bytes([place]) * 32, vectors[0], 64)
        expected = {row for row, where in held.items() if where == place}
        assert {row for row, _ in found} <= expected
        if place not in index.turns or index.turns[bytes([place]) * 32].kind == "flat":
            assert {row for row, _ in found} == expected
    assert len(index) == len(held)
    assert sum(map(len, index.turns.values())) == len(held)


@pytest.mark.slow
def test_inverted_lists_find_what_comparing_all_finds() -> None:
    vectors = clustered(100_000, 64, seed=1)
    asked = unit(vectors[::500] + 0.05 * np.random.default_rng(2).normal(size=(200, 64)))
    cell = InvertedCell.build(np.arange(len(vectors)), vectors, 2)
    truth = np.argsort(-(asked @ vectors.T), axis=1)[:, :10]
    found = [{row for row, _ in cell.search(np.ascontiguousarray(one), 10)} for one in asked]
    recall = np.mean([len(set(best) & ours) / 10 for best, ours in zip(truth.tolist(), found, strict=True)])
    assert recall >= 0.99


@pytest.mark.slow
def test_searches_while_rows_come_and_go_and_cells_are_rebuilt_see_sound_rows_only() -> None:
    vectors = some(4000)
    index, problems, stop = Index(D, "m", switch_rows=300), list[str](), threading.Event()
    index.put([entry(row, vectors[row]) for row in range(1000)])

    def read(seed: int) -> None:
        draw = np.random.default_rng(seed)
        while not stop.is_set():
            asked = int(draw.integers(0, 4000))
            for row, likeness in index.search(b"p" * 32, vectors[asked], 8):
                if not 0 <= row < 4000 or abs(likeness - float(vectors[row] @ vectors[asked])) > 1e-4:
                    problems.append(f"row {row} at {likeness}")

    keeper = Keeper(index, None, ORIGIN, lambda: 0)
    keeper.start()
    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for reader in readers:
        reader.start()
    draw, ends = np.random.default_rng(9), time.monotonic() + 4
    while time.monotonic() < ends:
        row = int(draw.integers(0, 4000))
        if row in index and draw.random() < 0.6:
            index.remove(row)
        else:
            index.put([entry(row, vectors[row])])
    stop.set()
    for reader in readers:
        reader.join()
    keeper.stop()
    assert problems == []
    cell = index.turns[b"p" * 32]
    assert sorted(cell.contents()[0].tolist()) == sorted(index.placed)


def test_changes_during_a_rebuild_are_in_what_it_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = some(60)
    cell = Cell(FlatCell(D), tenant_id="t", family=b"f", key=b"k", switch_rows=20)
    cell.put(list(range(50)), vectors[:50], set())
    built = InvertedCell.build

    def build_while_it_changes(rows: np.ndarray, all_vectors: np.ndarray, threads: int) -> InvertedCell:
        cell.put([50, 3], vectors[[50, 51]], {3})
        cell.remove(7)
        return built(rows, all_vectors, threads)

    monkeypatch.setattr(InvertedCell, "build", build_while_it_changes)
    assert cell.due
    cell.rebuild(1)
    assert cell.kind == "inverted"
    assert sorted(cell.contents()[0].tolist()) == sorted({*range(51)} - {7})
    np.testing.assert_array_equal(cell.vector_of(3), vectors[51])
    assert cell.vector_of(7) is None


@pytest.mark.slow
def test_tiny_partitions_cost_little_beyond_their_vectors() -> None:
    import tracemalloc

    vectors = clustered(3000, 384, seed=3)
    tracemalloc.start()
    index = Index(384, "m")
    index.put([entry(row, vectors[row], row.to_bytes(32, "big")) for row in range(3000)])
    size_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert size_bytes / 3000 < 384 * 4 + 1600
