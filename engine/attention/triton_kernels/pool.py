"""One layer's KV memory as the kernels see it, and the numbers their launches share."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

INT8_LIMIT = 127.0
FP8_LIMIT = 448.0
"""Largest magnitude of e4m3."""

SMALLEST_DOT = 16
"""Rows, columns and depth that `tl.dot` takes at least."""


@dataclass(frozen=True, slots=True)
class LayerPool:
    """Keys and values of one layer.

    Attributes:
        values: contiguous [S, 2K, D]; fp32, fp16, bf16, int8 or float8_e4m3fn.
        scales: contiguous fp32 [S, 2K] for the quantised kinds, else None.
        block_size: slots in a block.
    """

    values: torch.Tensor
    scales: torch.Tensor | None
    block_size: int

    @property
    def kv_heads(self) -> int:
        """K."""
        return self.values.shape[1] // 2

    @property
    def head_dim(self) -> int:
        """D."""
        return self.values.shape[2]

    @property
    def scale_pointer(self) -> torch.Tensor:
        """The scales, or anything in their place where no kernel will look."""
        return self.values if self.scales is None else self.scales


def power_of_two(size: int) -> int:
    """Return the smallest power of two that is not below `size`."""
    return 1 << (size - 1).bit_length()


def dot_dtype(query: torch.Tensor) -> tl.dtype:
    """Choose what dot products multiply in: the query's own dtype on a GPU, fp32 in Triton's interpreter.

    The interpreter keeps bf16 as raw 16-bit integers and would multiply those.
    """
    if triton.knobs.runtime.interpret:
        return tl.float32
    return {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}.get(query.dtype, tl.float32)
