"""The index on disk, for a quick start: numbers only, checked before anything is made of them.

A snapshot is two files: `NAME.arrays`, raw arrays one behind the other, and `NAME.json`, which says what they are,
how long they are and what their SHA-256 is. It is a cache of vectors and nothing else: whoever loads it compares
every row with the database, and a file that is broken, foreign or of another model is as good as none.
"""

import contextlib
import hashlib
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from policies.encryption import MasterKeys, chunk_key
from semantic.index.chunks import CHUNK_BYTES, Chunks, SnapshotError

__all__ = ["Arrays", "Head", "Origin", "SnapshotError", "read", "read_latest", "write"]

FORMAT = 2
_MAX_HEAD_BYTES = 64 << 20
_MAX_ARRAYS = 100_000
_TYPES = {"int64", "float64", "float32", "uint8"}


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a snapshot is of.

    Attributes:
        models: fingerprint of what embedded.
        database: which one the rows are of.
        reached: the change up to which everything is in it.
        rows: how many.
        arrays: name, type and shape, in the order of the file.
        size_bytes, sha256: of the arrays' file.
        master_id, salt: of what its chunks are encrypted under; empty when they are not.
    """

    format: int
    models: str
    dimensions: int
    database: str
    reached: int
    rows: int
    arrays: tuple[tuple[str, str, tuple[int, ...]], ...]
    size_bytes: int
    sha256: str
    master_id: str = ""
    salt: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a snapshot must be of to be of use.

    Attributes:
        masters: what it is encrypted under; None for a plain one.
    """

    models: str
    dimensions: int
    database: str
    masters: MasterKeys | None = None


Arrays = Iterable[tuple[str, np.ndarray]]
"""Names and arrays; made one by one, so that no second copy of the index is ever whole in memory."""


def write(folder: Path, origin: Origin, reached: int, rows: int, arrays: Arrays) -> Path:
    """Writes a snapshot, then removes the one before; returns its head file.

    Whatever moment the process dies in, a head names only a whole file of arrays, and there is one.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"index-{origin.models}-{reached:020d}"
    master, salt = None if origin.masters is None else origin.masters.current, os.urandom(16)
    chunks = Chunks(None if master is None else chunk_key(master, salt))
    digest, size = hashlib.sha256(), 0
    listed: list[tuple[str, str, tuple[int, ...]]] = []
    with _replacing(folder / f"{name}.arrays") as stream:
        for key, value in arrays:
            listed.append((key, value.dtype.name, value.shape))
            data = np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
            for chunk in chunks.written(data):
                digest.update(chunk)
                size += stream.write(chunk)
    head = Head(
        FORMAT,
        origin.models,
        origin.dimensions,
        origin.database,
        reached,
        rows,
        tuple(listed),
        size,
        digest.hexdigest(),
        "" if master is None else master.key_id,
        "" if master is None else salt.hex(),
    )
    body = msgspec.json.encode(head)
    with _replacing(folder / f"{name}.json") as stream:
        stream.write(msgspec.json.encode({"head": msgspec.Raw(body), "sha256": hashlib.sha256(body).hexdigest()}))
    _keep(folder, name)
    return folder / f"{name}.json"


def read_latest(folder: Path, origin: Origin) -> tuple[Head, dict[str, np.ndarray]]:
    """Reads the newest snapshot that is whole and of this origin.

    Raises:
        SnapshotError: there is none; the message says what is wrong with the newest.
    """
    problems = []
    for file in sorted(folder.glob(f"index-{origin.models}-*.json"), reverse=True):
        try:
            return read(file, origin)
        except SnapshotError as error:
            problems.append(f"{file.name}: {error}")
    raise SnapshotError(problems[0] if problems else "there is none")


def read(file: Path, origin: Origin) -> tuple[Head, dict[str, np.ndarray]]:
    """Reads a snapshot by its head file; arrays are read-only.

    Raises:
        SnapshotError: it is broken, or of something else.
    """
    try:
        head = _head(file)
        if (head.format, head.models, head.dimensions, head.database) != (
            FORMAT,
            origin.models,
            origin.dimensions,
            origin.database,
        ):
            raise SnapshotError("it is of another format, model or database")
        return head, _arrays(file.with_suffix(".arrays"), head, _chunks(head, origin.masters))
    except OSError as error:
        raise SnapshotError(str(error)) from error


def _head(file: Path) -> Head:
    if file.stat().st_size > _MAX_HEAD_BYTES:
        raise SnapshotError("its head is too large")
    try:
        outer: dict[str, Any] = msgspec.json.decode(file.read_bytes(), type=dict[str, msgspec.Raw])
        body = bytes(outer["head"])
        if msgspec.json.decode(outer["sha256"], type=str) != hashlib.sha256(body).hexdigest():
            raise SnapshotError("its head is not what was written")
        return msgspec.json.decode(body, type=Head)
    except (KeyError, ValueError, RecursionError) as error:
        raise SnapshotError(f"its head cannot be read: {error}") from error


def _chunks(head: Head, masters: MasterKeys | None) -> Chunks:
    if not head.master_id:
        if masters is not None:
            raise SnapshotError("it is not encrypted, and that is wanted now")
        return Chunks(None)
    master = None if masters is None else masters.find(head.master_id)
    if master is None:
        raise SnapshotError("it is encrypted under a master key that is not here")
    return Chunks(chunk_key(master, bytes.fromhex(head.salt)))


def _arrays(file: Path, head: Head, chunks: Chunks) -> dict[str, np.ndarray]:
    if len(head.arrays) > _MAX_ARRAYS or any(
        kind not in _TYPES or any(side < 0 for side in shape) for _, kind, shape in head.arrays
    ):
        raise SnapshotError("its arrays are of unknown types")
    sizes = [math.prod(shape) * np.dtype(kind).itemsize for _, kind, shape in head.arrays]
    written = [chunks.size_of(size) for size in sizes]
    if file.stat().st_size != head.size_bytes or sum(written) != head.size_bytes:
        raise SnapshotError("its arrays have another size")
    data = np.memmap(file, np.uint8, "r") if head.size_bytes else np.empty(0, np.uint8)
    digest = hashlib.sha256()
    for at in range(0, len(data), CHUNK_BYTES):
        digest.update(data[at : at + CHUNK_BYTES].data)
    if digest.hexdigest() != head.sha256:
        raise SnapshotError("its arrays are not what was written")
    found, at = {}, 0
    for (name, kind, shape), size, stored in zip(head.arrays, sizes, written, strict=True):
        raw = chunks.read(data[at : at + stored].data, size)
        found[name] = np.frombuffer(raw, np.uint8, size).view(kind).reshape(shape)
        at += stored
    return found


@contextlib.contextmanager
def _replacing(file: Path) -> Iterator[Any]:
    """Opens a file to be written whole or not at all, readable by its owner only."""
    fresh = file.with_name(file.name + ".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as stream:  # noqa: PTH123  (a descriptor)
        yield stream
        stream.flush()
        os.fsync(stream.fileno())
    fresh.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _keep(folder: Path, name: str) -> None:
    """Removes all snapshots but one, of whatever model, and what a killed process left half written."""
    for file in folder.glob("index-*"):
        if file.name not in {f"{name}.json", f"{name}.arrays"}:
            file.unlink(missing_ok=True)
