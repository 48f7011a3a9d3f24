"""Snapshots: what was written is read, and a broken, foreign or mutated one is as good as none."""

import hashlib
import random
import threading
from pathlib import Path

import msgspec
import numpy as np
import pytest

from policies.encryption import MasterKeys, master_key
from semantic.index.index import Entry, Index
from semantic.index.keeper import Keeper, load
from semantic.index.packing import pack, unpack
from semantic.index.snapshot import Head, Origin, SnapshotError, read, read_latest, write
from tests.semantic.index.clusters import clustered

D = 8
ORIGIN = Origin("model", D, "database")


def filled(count: int = 120, switch_rows: int = 40) -> Index:
    """An index with a large cell, many small ones, and conversations."""
    vectors = clustered(count, D, seed=4)
    index = Index(D, ORIGIN.models, switch_rows=switch_rows)
    for row in range(count):
        partition = b"p" * 32 if row < count // 2 else row.to_bytes(32, "big")
        whole = vectors[-row - 1] if row % 3 == 0 else None
        index.put(
            [Entry(row, (row + 7, row / 3), f"tenant {row % 2}" * 4, b"f" * 32, partition, vectors[row], whole)]
        )
    Keeper(index, None, ORIGIN, lambda: 0).rebuild_due()
    return index


def held(index: Index) -> dict[str, object]:
    """All that an index holds, to be compared."""
    cells = {}
    for name, known in (("turn", index.turns), ("whole", index.conversations)):
        for key, cell in known.items():
            rows, vectors, _ = cell.contents()
            order = np.argsort(rows)
            found = rows[order].tolist(), vectors[order].tobytes()
            cells[name, key] = (cell.kind, cell.tenant_id, cell.family, found)
    return {"cells": cells, "stamps": {row: placed.stamp for row, placed in index.placed.items()}}


def test_what_was_written_is_read(tmp_path: Path) -> None:
    index, found = filled(), Index(D, ORIGIN.models, switch_rows=40)
    assert {cell.kind for cell in index.cells()} == {"flat", "inverted"}
    write(tmp_path, ORIGIN, 130, len(index), pack(index))
    assert load(found, tmp_path, ORIGIN) is None
    assert held(found) == held(index)
    for row in range(0, 120, 2):
        assert found.remove(row)
    assert len(found) == 60
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}


def test_one_snapshot_is_kept_and_half_written_files_are_not(tmp_path: Path) -> None:
    (tmp_path / "index-model-00000000000000000009.arrays.new").write_bytes(b"x")
    for reached in (5, 6):
        write(tmp_path, ORIGIN, reached, 120, pack(filled()))
    assert {file.suffix for file in tmp_path.iterdir()} == {".json", ".arrays"}
    assert read_latest(tmp_path, ORIGIN)[0].reached == 6


@pytest.mark.parametrize(
    "origin", [Origin("other", D, "database"), Origin("model", D + 1, "database"), Origin("model", D, "other")]
)
def test_another_models_or_databases_snapshot_is_none(tmp_path: Path, origin: Origin) -> None:
    write(tmp_path, ORIGIN, 5, 120, pack(filled()))
    index = Index(origin.dimensions, origin.models)
    assert load(index, tmp_path, origin)
    assert len(index) == 0


def test_no_folder_is_no_snapshot(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="none"):
        read_latest(tmp_path / "absent", ORIGIN)


@pytest.mark.slow
def test_some_hundred_mutated_files_are_none(tmp_path: Path) -> None:
    write(tmp_path, ORIGIN, 5, 120, pack(filled()))
    draw = random.Random(3)
    files = sorted(tmp_path.iterdir())
    whole = {file: file.read_bytes() for file in files}
    for _ in range(400):
        file = draw.choice(files)
        data = bytearray(whole[file])
        match draw.randrange(4):
            case 0:
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
            case 1:
                del data[draw.randrange(len(data)) :]
            case 2:
                data[draw.randrange(len(data)) : 0] = draw.randbytes(draw.randrange(1, 40))
            case 3:
                at = draw.randrange(len(data))
                data[at : at + 30] = draw.randbytes(30)
        file.write_bytes(data)
        index = Index(D, ORIGIN.models)
        reason = load(index, tmp_path, ORIGIN)
        assert (reason is None and bytes(data) == whole[file]) or (reason and len(index) == 0)
        file.write_bytes(whole[file])
    assert load(Index(D, ORIGIN.models), tmp_path, ORIGIN) is None


@pytest.mark.parametrize("name", ["cells", "sizes", "rows", "changed", "created", "vectors", "lists", "tenants"])
@pytest.mark.parametrize("chunk", [0, 1])
def test_arrays_that_do_not_fit_each_other_are_none_though_their_digests_are_right(name: str, chunk: int) -> None:
    whole = dict(pack(filled()))
    value = whole.get(f"{name}.{chunk}")
    if value is None:
        value = whole[f"{name}.0"]
    for changed in (value[:-1], np.concatenate([value, value])):
        with pytest.raises(SnapshotError):
            unpack({**whole, f"{name}.{chunk}": changed}, Index(D, "model", switch_rows=40))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("vectors.0", np.zeros((60, D), np.float32)),
        ("lists.0", np.full(60, 1000)),
        ("lists.0", np.full(60, -1)),
        ("training.0", np.array([0, 60])),
        ("rows.0", np.zeros(60, np.int64)),
        ("sizes.1", np.zeros(60, np.int64)),
        ("centroids.0", np.zeros((4, D + 1), np.float32)),
    ],
)
def test_numbers_that_nothing_can_be_made_of_are_none(name: str, value: np.ndarray) -> None:
    whole = dict(pack(filled()))
    with pytest.raises(SnapshotError):
        unpack({**whole, name: value}, Index(D, "model", switch_rows=40))


@pytest.mark.slow
def test_an_index_that_changes_while_it_is_written_is_read_without_half_rows(tmp_path: Path) -> None:
    index, stop = filled(), threading.Event()
    vectors = clustered(400, D, seed=8)

    def change() -> None:
        draw = random.Random(1)
        while not stop.is_set():
            row = draw.randrange(400)
            if not index.remove(row):
                partition = row.to_bytes(32, "big")
                index.put([Entry(row, (row, 1.0), "t", b"f" * 32, partition, vectors[row], vectors[row])])

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for reached in range(1, 30):
            write(tmp_path, ORIGIN, reached, len(index), pack(index))
            found = Index(D, ORIGIN.models, switch_rows=40)
            assert load(found, tmp_path, ORIGIN) is None
            assert sum(map(len, found.turns.values())) == len(found)
            assert all(row in found.placed for cell in found.cells() for row in cell.contents()[0].tolist())
    finally:
        stop.set()
        changing.join()


MASTERS = MasterKeys(master_key("m" * 32))
SEALED = Origin("model", D, "database", MASTERS)


def test_an_encrypted_snapshot_shows_nothing_and_comes_back(tmp_path: Path) -> None:
    vectors = np.frombuffer(b"canary--" * 3_000_000, np.float32).reshape(-1, 8)
    arrays: dict[str, np.ndarray] = {
        "vectors.0": vectors,
        "empty": np.empty((0, 4), np.int64),
        "rows.0": np.arange(5),
    }
    file = write(tmp_path, SEALED, 7, 5, arrays.items())
    assert not any(b"canary" in stored.read_bytes() for stored in tmp_path.iterdir())
    head, found = read(file, SEALED)
    assert head.master_id == MASTERS.current.key_id
    assert found.keys() == arrays.keys()
    assert all(np.array_equal(found[name], value) for name, value in arrays.items())


def test_an_encrypted_snapshot_opens_with_its_master_key_alone(tmp_path: Path) -> None:
    file = write(tmp_path, SEALED, 7, 5, [("rows.0", np.arange(5))])
    other = MasterKeys(master_key("o" * 32))
    for masters in (None, other):
        with pytest.raises(SnapshotError, match="not here"):
            read(file, Origin("model", D, "database", masters))
    rotated = MasterKeys(other.current, (MASTERS.current,))
    assert read(file, Origin("model", D, "database", rotated))[0].reached == 7
    plain = write(tmp_path, ORIGIN, 8, 5, [("rows.0", np.arange(5))])
    with pytest.raises(SnapshotError, match="not encrypted"):
        read(plain, SEALED)


def test_chunks_of_two_encrypted_snapshots_cannot_be_mixed(tmp_path: Path) -> None:
    file = write(tmp_path / "one", SEALED, 7, 5, [("rows.0", np.arange(5))])
    other = write(tmp_path / "other", SEALED, 7, 5, [("rows.0", np.arange(5))])
    head = msgspec.json.decode(file.read_bytes())["head"]
    head["sha256"] = hashlib.sha256(other.with_suffix(".arrays").read_bytes()).hexdigest()
    body = msgspec.json.encode(msgspec.convert(head, Head))
    file.write_bytes(msgspec.json.encode({"head": msgspec.Raw(body), "sha256": hashlib.sha256(body).hexdigest()}))
    other.with_suffix(".arrays").replace(file.with_suffix(".arrays"))
    with pytest.raises(SnapshotError, match="do not open"):
        read(file, SEALED)
