"""The GGUF container: metadata and tensor table, read in one pass over a memory map.

Source: the GGUF specification, versions 2 and 3, little endian. The `gguf` package's own reader builds a NumPy
view for each array element, which costs seconds on a vocabulary.
"""

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray

from engine.errors import ModelError
from engine.loader.contract import MALFORMED
from engine.loader.matrix import Matrix, check_kind

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_DEFAULT_ALIGNMENT = 32
_MAX_RANK = 4


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Where a tensor lies. `shape` is in row-major order, the reverse of the file's."""

    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    offset: int


class GgufFile:
    """An opened GGUF file.

    Attributes:
        metadata: scalars and lists by key.
        tensors: the tensor table by name.

    Raises:
        ModelError: on opening, when the file is absent, cut short or no GGUF.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._bytes: NDArray[np.uint8] = np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))
        except (OSError, ValueError) as error:
            raise ModelError(f"cannot read {path}: {error}") from error
        self._view = self._bytes.data
        self._at = 0
        try:
            self._read_header()
        except (struct.error, MemoryError, *MALFORMED) as error:
            raise ModelError(f"{path} is not a readable GGUF file: {error!r}") from error

    def matrix(self, name: str) -> Matrix:
        """Return one tensor's bytes where they lie, as rows of its last dimension.

        Raises:
            ModelError: its bytes are cut off or its type is unknown to the `gguf` package.
        """
        entry = self.tensors[name]
        block, block_bytes = GGML_QUANT_SIZES[entry.kind]
        rows, columns = math.prod(entry.shape[:-1]), entry.shape[-1]
        size = rows * (columns // block) * block_bytes
        start = self._data_start + entry.offset
        if start + size > len(self._bytes) or columns % block:
            raise ModelError(f"{self.path}: tensor {name} is cut off")
        check_kind(entry.kind.name, f"{self.path}: tensor {name}")
        return Matrix(entry.kind.name, self._bytes[start : start + size].reshape(rows, -1), columns)

    def _read_header(self) -> None:
        if bytes(self._view[:4]) != _MAGIC:
            raise ValueError("wrong magic")
        self._at = len(_MAGIC)
        version = self._scalar("I")
        if version not in _VERSIONS:
            raise ValueError(f"version {version}")
        tensor_count, key_count = self._scalar("Q"), self._scalar("Q")
        self.metadata: dict[str, Any] = {}
        for _ in range(key_count):
            key = self._string()
            self.metadata[key] = self._value(self._scalar("I"))
        self.tensors = dict(self._tensor_entry() for _ in range(tensor_count))
        alignment = int(self.metadata.get("general.alignment", _DEFAULT_ALIGNMENT))
        if alignment < 1:
            raise ValueError(f"alignment {alignment}")
        self._data_start = -(-self._at // alignment) * alignment

    def _tensor_entry(self) -> tuple[str, TensorEntry]:
        name = self._string()
        rank = self._scalar("I")
        if not 1 <= rank <= _MAX_RANK:
            raise ValueError(f"tensor {name} has rank {rank}")
        shape = tuple(reversed([int(self._scalar("Q")) for _ in range(rank)]))
        return name, TensorEntry(shape, GGMLQuantizationType(self._scalar("I")), self._scalar("Q"))

    def _scalar(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self._view, self._at)
        self._at += struct.calcsize("<" + code)
        return value

    def _string(self) -> str:
        size = self._scalar("Q")
        if self._at + size > len(self._bytes):
            raise ValueError("a string runs past the end")
        text = str(self._view[self._at : self._at + size], "utf-8")
        self._at += size
        return text

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._scalar(_SCALARS[kind])
        item_kind, count = self._scalar("I"), self._scalar("Q")
        if count > len(self._bytes):
            raise ValueError("an array runs past the end")
        if item_kind in (_STRING, _ARRAY):
            return [self._value(item_kind) for _ in range(count)]
        layout = f"<{count}{_SCALARS[item_kind]}"
        values = list(struct.unpack_from(layout, self._view, self._at))
        self._at += struct.calcsize(layout)
        return values
