"""A linear weight as its file keeps it, so that a kernel may use the quantised blocks in place.

Legend: R rows (outputs), C columns (inputs).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import gguf
import numpy as np
import torch

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

    def dense(self) -> torch.Tensor:
        """Return fp32 [R, C], exactly what the stored blocks stand for."""
        if self.kind in PLAIN_KINDS:
            raw = torch.from_numpy(np.require(self.data, requirements=["C", "W"]))
            return raw.view(PLAIN_KINDS[self.kind]).view(self.rows, self.columns).to(torch.float32)
        kind = gguf.GGMLQuantizationType[self.kind]
        values = gguf.quants.dequantize(np.ascontiguousarray(self.data), kind)
        return torch.from_numpy(np.require(values, dtype=np.float32, requirements=["C", "W"]))

    def reordered(self, rows: Sequence[int] | np.ndarray) -> "Matrix":
        """Return the same weights with rows picked in another order."""
        return Matrix(self.kind, self.data[np.asarray(rows)], self.columns)
