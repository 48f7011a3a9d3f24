"""How layers keep and apply their weights. Legend: R rows, I inputs, O outputs, C hidden size.

Both linear kernels give a row the same bits whatever the other rows are, as long as the number of rows is a
multiple of `ROW_GRAIN`. FBGEMM computes six rows at a time and ends with a kernel for the rest; its kernels for
one and two rows add in another order than those for three to six, so steps are padded to threes.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

import torch

from engine.loader.matrix import Matrix

ROW_GRAIN = 3


class Linear(Protocol):
    """Applies one weight."""

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Map fp32 [R, I] to a fresh fp32 [R, O]."""
        ...


class HalfLinear:
    """Weights in fp16, activations in fp32 (FBGEMM): half the bytes to read, which is what decoding waits for."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._packed = torch.ops.quantized.linear_prepack_fp16(weight, bias)

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Apply the weight."""
        out: torch.Tensor = torch.ops.quantized.linear_dynamic_fp16.default(rows, self._packed)
        return out


class FullLinear:
    """Weights in fp32, packed once for oneDNN: exact, at twice the memory."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._bias = bias
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, None)  # noqa: SLF001  (no public name)

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Apply the weight."""
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise.default(  # noqa: SLF001
            rows, self._packed, self._bias, "none", [], ""
        )
        return out


LinearMaker = Callable[[torch.Tensor, torch.Tensor | None], Linear]
"""From fp32 weight [O, I] and fp32 bias [O] or None."""

LINEARS: Mapping[str, LinearMaker] = {"fp16": HalfLinear, "fp32": FullLinear}
"""Weight formats by the name `--weights` takes."""


class Embedding:
    """Looks rows up where the file has them, so that the table takes no memory of its own."""

    def __init__(self, table: Matrix) -> None:
        self._table = table

    def __call__(self, ids: torch.Tensor) -> torch.Tensor:
        """Map int64 [R] to a fresh fp32 [R, C]."""
        return self._table.reordered(ids.numpy()).dense()


def padded_rows(rows: int) -> int:
    """Round a number of rows up to the grain at which results do not depend on it."""
    return -(-rows // ROW_GRAIN) * ROW_GRAIN
