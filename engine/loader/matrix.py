"""A linear weight as its file keeps it, so that a kernel may use the quantised blocks in place.

Legend: R rows (outputs), C columns (inputs).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import gguf
import numpy as np
import torch

from engine.errors import ModelError

_JOINED_ROWS = 64
PLAIN_KINDS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class Matrix:
    """R x C weights.

    Attributes:
        kind: the storage format by GGUF's name: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q8_0, Q4_K, Q6_K, ...
        data: uint8 [R, bytes of one row]; rows are independent of each other in every kind.
        columns: C.
    """

    kind: str
    data: np.ndarray
    columns: int

    @property
    def rows(self) -> int:
        """R."""
        return int(self.data.shape[0])

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Self:
        """View a plain fp32, fp16 or bf16 tensor as a matrix of its last dimension's columns.

        Raises:
            ModelError: its type is another.
        """
        kind = next((name for name, dtype in PLAIN_KINDS.items() if dtype == tensor.dtype), None)
        if kind is None:
            raise ModelError(f"weights of type {tensor.dtype} are not supported")
        columns = tensor.shape[-1]
        data = tensor.detach().contiguous().view(-1, columns).view(torch.uint8).numpy()
        return cls(kind, data, columns)

    def dense(self) -> torch.Tensor:
        """Return a fresh fp32 [R, C], exactly what the stored blocks stand for."""
        # The dequantisers work on 16 rows at a time, which is slow on short ones: join rows where they divide.
        joined = np.ascontiguousarray(self.data).reshape(self.rows // math.gcd(self.rows, _JOINED_ROWS), -1)
        values: np.ndarray = gguf.quants.dequantize(joined, gguf.GGMLQuantizationType[self.kind])
        fresh = values.copy() if self.kind == "F32" else values
        return torch.from_numpy(fresh).view(self.rows, self.columns)

    def reordered(self, rows: Sequence[int] | np.ndarray) -> "Matrix":
        """Return the same weights with rows picked in another order."""
        return Matrix(self.kind, self.data[np.asarray(rows)], self.columns)


def check_kind(kind: str, what: str) -> None:
    """Prove that a storage format can be turned into numbers.

    Raises:
        ModelError: it cannot; the message begins with `what`.
    """
    number = gguf.GGMLQuantizationType[kind]
    try:
        gguf.quants.dequantize(np.zeros((1, gguf.GGML_QUANT_SIZES[number][1]), dtype=np.uint8), number)
    except NotImplementedError as error:
        raise ModelError(f"{what} has unsupported type {kind}") from error
