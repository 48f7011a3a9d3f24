"""Attention of one new token per sequence over its paged past, split along the keys.

How a sequence is split follows from its own length alone, so it has the same bits alone and in company; how many
splits a launch has room for follows from the longest length it must take (`splits_for`) and belongs into the key
of a CUDA graph. Splits beyond a sequence's own are left out, neither written nor read.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from engine.attention.triton_kernels.pool import SMALLEST_DOT, LayerPool, dot_dtype, power_of_two

MOST_SPLITS = 16
SHORTEST_SPLIT = 128
_LOG2_E = 1.4426950408889634


def splits_for(longest: int) -> int:
    """Return how many splits a launch needs whose sequences look back at most `longest` tokens; a power of two."""
    return min(MOST_SPLITS, power_of_two(-(-max(longest, 1) // SHORTEST_SPLIT)))


@triton.jit
def _span(
    length: tl.tensor, WINDOW: tl.constexpr, MOST: tl.constexpr, SHORTEST: tl.constexpr, KEYS: tl.constexpr
) -> tl.tensor:
    first = tl.maximum(length - WINDOW, 0) if WINDOW > 0 else length * 0
    share = tl.cdiv(length - first, MOST)
    return first, tl.maximum(tl.cdiv(share, KEYS) * KEYS, SHORTEST)


@triton.jit
def _decode(
    query: tl.tensor,
    values: tl.tensor,
    scales: tl.tensor,
    tables: tl.tensor,
    lengths: tl.tensor,
    partial: tl.tensor,
    weights: tl.tensor,
    out: tl.tensor,
    query_row_stride: int,
    query_head_stride: int,
    table_stride: int,
    score_scale: float,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    WINDOW: tl.constexpr,
    QUANTISED: tl.constexpr,
    GROUP_BLOCK: tl.constexpr,
    DIM_BLOCK: tl.constexpr,
    KEYS: tl.constexpr,
    SPLITS: tl.constexpr,
    MOST: tl.constexpr,
    SHORTEST: tl.constexpr,
    DOT: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    length = tl.load(lengths + row)
    first, share = _span(length, WINDOW, MOST, SHORTEST, KEYS)
    begin = first + split * share
    end = tl.minimum(begin + share, length)

    members = tl.arange(0, GROUP_BLOCK)
    dims = tl.arange(0, DIM_BLOCK)
    heads = kv_head * GROUP + members
    inside = (members[:, None] < GROUP) & (dims[None, :] < DIM)
    asked = tl.load(
        query + row * query_row_stride + heads[:, None] * query_head_stride + dims[None, :], mask=inside, other=0.0
    ).to(DOT)

    peak = tl.full((GROUP_BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((GROUP_BLOCK,), tl.float32)
    mixed = tl.zeros((GROUP_BLOCK, DIM_BLOCK), tl.float32)
    for start in range(begin, end, KEYS):
        tokens = start + tl.arange(0, KEYS)
        seen = tokens < end
        block = tl.load(tables + row * table_stride + tokens // BLOCK_SIZE, mask=seen, other=0).to(tl.int64)
        place = (block * BLOCK_SIZE + tokens % BLOCK_SIZE) * (2 * KV_HEADS) + kv_head
        readable = seen[:, None] & (dims[None, :] < DIM)
        keys = tl.load(values + place[:, None] * DIM + dims[None, :], mask=readable, other=0.0).to(DOT)
        scores = tl.dot(asked, tl.trans(keys), input_precision="ieee") * score_scale
        if QUANTISED:
            scores = scores * tl.load(scales + place, mask=seen, other=0.0)[None, :]
        scores = tl.where(seen[None, :], scores, -float("inf"))
        higher = tl.maximum(peak, tl.max(scores, axis=1))
        chances = tl.exp2(scores - higher[:, None])
        fade = tl.exp2(peak - higher)
        total = total * fade + tl.sum(chances, axis=1)
        if QUANTISED:
            chances = chances * tl.load(scales + place + KV_HEADS, mask=seen, other=0.0)[None, :]
        found = tl.load(values + (place + KV_HEADS)[:, None] * DIM + dims[None, :], mask=readable, other=0.0)
        mixed = mixed * fade[:, None] + tl.dot(chances.to(DOT), found.to(DOT), input_precision="ieee")
        peak = higher

    answer = mixed / tl.where(total > 0, total, 1.0)[:, None]
    if SPLITS == 1:
        place_out = (row * (KV_HEADS * GROUP) + heads[:, None]) * DIM + dims[None, :]
        tl.store(out + place_out, answer.to(out.dtype.element_ty), mask=inside)
    elif begin < end:
        part = (row * (KV_HEADS * GROUP) + heads) * SPLITS + split
        tl.store(partial + part[:, None] * DIM + dims[None, :], answer, mask=inside)
        tl.store(weights + part, peak + tl.log2(total), mask=members < GROUP)


@triton.jit
def _combine(
    partial: tl.tensor,
    weights: tl.tensor,
    lengths: tl.tensor,
    out: tl.tensor,
    HEADS: tl.constexpr,
    DIM: tl.constexpr,
    DIM_BLOCK: tl.constexpr,
    WINDOW: tl.constexpr,
    KEYS: tl.constexpr,
    SPLITS: tl.constexpr,
    MOST: tl.constexpr,
    SHORTEST: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    head = row * HEADS + tl.program_id(1)
    length = tl.load(lengths + row)
    first, share = _span(length, WINDOW, MOST, SHORTEST, KEYS)
    # The tile always has room for the most splits there can be, so that sums are taken in the same order in
    # every launch.
    parts = tl.arange(0, MOST)
    held = parts < tl.minimum(tl.cdiv(length - first, share), SPLITS)
    dims = tl.arange(0, DIM_BLOCK)
    log_weight = tl.load(weights + head * SPLITS + parts, mask=held, other=-float("inf"))
    # Without any part there is no finite peak to subtract.
    peak = tl.maximum(tl.max(log_weight, axis=0), -3.0e38)
    weight = tl.exp2(log_weight - peak)
    found = tl.load(
        partial + (head * SPLITS + parts)[:, None] * DIM + dims[None, :],
        mask=held[:, None] & (dims[None, :] < DIM),
        other=0.0,
    )
    total = tl.sum(weight, axis=0)
    answer = tl.sum(found * weight[:, None], axis=0) / tl.where(length > 0, total, 1.0)
    tl.store(out + head * DIM + dims, answer.to(out.dtype.element_ty), mask=dims < DIM)


@dataclass(frozen=True, slots=True)
class DecodeBatch:
    """The sequences of a decode launch, on the device.

    Attributes:
        tables: int32 [B, widest table]; entries a sequence does not look at may be anything.
        lengths: int32 [B], tokens in the pool, the new one included; 0 for a padded row, which yields zeros.
        splits: `splits_for` the longest look-back of the batch.
    """

    tables: torch.Tensor
    lengths: torch.Tensor
    splits: int


def decode_attention(
    query: torch.Tensor,
    pool: LayerPool,
    batch: DecodeBatch,
    out: torch.Tensor,
    *,
    score_scale: float,
    window: int | None = None,
) -> None:
    """Attend each sequence's one query to its past, its own key and value included.

    Args:
        query: [B, H, D] with D dense.
        pool: keys and values, the new ones stored already.
        batch: whose queries they are.
        out: contiguous [B, H, D], filled.
        score_scale: multiplies the scores.
        window: tokens a query may look back, itself included; None for all.
    """
    rows, heads, dim = query.shape
    group = heads // pool.kv_heads
    dim_block = max(SMALLEST_DOT, power_of_two(dim))
    keys, warps, stages = _shape_of(dim_block)
    common = {
        "DIM": dim,
        "DIM_BLOCK": dim_block,
        "WINDOW": window or 0,
        "KEYS": keys,
        "SPLITS": batch.splits,
        "MOST": MOST_SPLITS,
        "SHORTEST": SHORTEST_SPLIT,
    }
    partial = weights = out
    if batch.splits > 1:
        partial = torch.empty(rows, heads, batch.splits, dim, dtype=torch.float32, device=query.device)
        weights = torch.empty(rows, heads, batch.splits, dtype=torch.float32, device=query.device)
    _decode[(rows, pool.kv_heads, batch.splits)](
        query,
        pool.values,
        pool.scale_pointer,
        batch.tables,
        batch.lengths,
        partial,
        weights,
        out,
        query.stride(0),
        query.stride(1),
        batch.tables.stride(0),
        score_scale * _LOG2_E,
        KV_HEADS=pool.kv_heads,
        GROUP=group,
        BLOCK_SIZE=pool.block_size,
        QUANTISED=pool.scales is not None,
        GROUP_BLOCK=max(SMALLEST_DOT, power_of_two(group)),
        DOT=dot_dtype(query),
        num_warps=warps,
        num_stages=stages,
        **common,
    )
    if batch.splits > 1:
        _combine[(rows, heads)](partial, weights, batch.lengths, out, HEADS=heads, num_warps=4, **common)


def _shape_of(dim_block: int) -> tuple[int, int, int]:
    """Keys of a tile, warps and pipeline stages; by head size alone, and never tuned by batch."""
    return (64, 4, 3) if dim_block <= 128 else (32, 4, 3)  # noqa: PLR2004
