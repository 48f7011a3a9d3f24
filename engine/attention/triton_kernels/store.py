"""New keys and values into the pool, quantised on the way."""

import torch
import triton
import triton.language as tl

from engine.attention.triton_kernels.pool import FP8_LIMIT, INT8_LIMIT, LayerPool, power_of_two

_MOST_HEADS = 16
_LIMITS = {torch.int8: INT8_LIMIT, torch.float8_e4m3fn: FP8_LIMIT}


@triton.jit
def _rounded(scaled: tl.tensor, WHOLE: tl.constexpr) -> tl.tensor:
    """Round half to even: to whole numbers, or to what e4m3 can say, so that the cast that follows is exact."""
    # Adding 1.5 * 2^23 units leaves no room for a fraction of a unit.
    unit = tl.full(scaled.shape, 1.0, tl.float32)
    if not WHOLE:
        exponent = tl.maximum((scaled.to(tl.int32, bitcast=True) >> 23) & 0xFF, 127 - 6)
        unit = ((exponent - 3) << 23).to(tl.float32, bitcast=True)
    return (scaled + 12582912.0 * unit) - 12582912.0 * unit


@triton.jit
def _store(
    rows: tl.tensor,
    slots: tl.tensor,
    values: tl.tensor,
    scales: tl.tensor,
    row_stride: int,
    head_stride: int,
    HEADS: tl.constexpr,
    DIM: tl.constexpr,
    HEADS_BLOCK: tl.constexpr,
    DIM_BLOCK: tl.constexpr,
    LIMIT: tl.constexpr,
    WHOLE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + row).to(tl.int64)
    if slot >= 0:
        heads = tl.program_id(1) * HEADS_BLOCK + tl.arange(0, HEADS_BLOCK)
        dims = tl.arange(0, DIM_BLOCK)
        inside = (heads[:, None] < HEADS) & (dims[None, :] < DIM)
        found = tl.load(
            rows + row * row_stride + heads[:, None] * head_stride + dims[None, :], mask=inside, other=0.0
        ).to(tl.float32)
        if LIMIT > 0:
            scale = tl.div_rn(tl.max(tl.abs(found), axis=1), tl.full((HEADS_BLOCK,), LIMIT, tl.float32))
            divisor = tl.where(scale > 0, scale, 1.0)
            found = tl.div_rn(found, tl.broadcast_to(divisor[:, None], (HEADS_BLOCK, DIM_BLOCK)))
            found = _rounded(found, WHOLE)
            tl.store(scales + slot * HEADS + heads, scale, mask=heads < HEADS)
        target = values + slot * (HEADS * DIM) + heads[:, None] * DIM + dims[None, :]
        tl.store(target, found.to(values.dtype.element_ty), mask=inside)


def store_rows(rows: torch.Tensor, slots: torch.Tensor, pool: LayerPool) -> None:
    """Write rows at slots; a row whose slot is negative is written nowhere.

    int8 and fp8 rows are divided by their scale, the largest magnitude of the token's head over the kind's
    limit; int8 is rounded half to even.

    Args:
        rows: fp32, fp16 or bf16 [R, 2K, D], any strides as long as D is dense.
        slots: int32 or int64 [R].
        pool: where they go.
    """
    heads, dim = pool.values.shape[1:]
    heads_block = min(_MOST_HEADS, power_of_two(heads))
    _store[(rows.shape[0], triton.cdiv(heads, heads_block))](
        rows,
        slots,
        pool.values,
        pool.scale_pointer,
        rows.stride(0),
        rows.stride(1),
        HEADS=heads,
        DIM=dim,
        HEADS_BLOCK=heads_block,
        DIM_BLOCK=power_of_two(dim),
        LIMIT=_LIMITS.get(pool.values.dtype, 0.0),
        WHOLE=pool.values.dtype == torch.int8,
        num_warps=4,
    )
