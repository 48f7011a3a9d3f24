"""How a linear layer keeps and applies its weight. Legend: R rows, I inputs, O outputs.

Both kernels give a row the same bits whatever the other rows are, as long as the number of rows is a multiple of
`ROW_GRAIN`. FBGEMM computes six rows at a time and ends with a kernel for the rest; its kernels for one and two
rows add in another order than those for three to six, so steps are padded to threes.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

import torch

ROW_GRAIN = 3


class Linear(Protocol):
    """Applies one weight."""

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Map fp32 [R, I] to a fresh fp32 [R, O]."""
        ...


class HalfLinear:
    """Weights in fp16, activations in fp32 (FBGEMM): half the bytes to read, which is what decoding waits for."""

    def __init__(self, weight: torch.Tensor) -> None:
        self._packed = torch.ops.quantized.linear_prepack_fp16(weight, None)

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Apply the weight."""
        out: torch.Tensor = torch.ops.quantized.linear_dynamic_fp16.default(rows, self._packed)
        return out


class FullLinear:
    """Weights in fp32, packed once for oneDNN: exact, at twice the memory."""

    def __init__(self, weight: torch.Tensor) -> None:
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, None)  # noqa: SLF001  (no public name)

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Apply the weight."""
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise.default(  # noqa: SLF001
            rows, self._packed, None, "none", [], ""
        )
        return out


LINEARS: Mapping[str, Callable[[torch.Tensor], Linear]] = {"fp16": HalfLinear, "fp32": FullLinear}
"""Weight formats by the name `--weights` takes."""


def padded_rows(rows: int) -> int:
    """Round a number of rows up to the grain at which results do not depend on it."""
    return -(-rows // ROW_GRAIN) * ROW_GRAIN
