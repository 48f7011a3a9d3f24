"""Attention of prompt chunks over their paged past and themselves.

Tiles of keys start at absolute multiples of their size, so a query's sums are taken in the same order however its
prompt is cut into chunks and whatever else is in the step.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from engine.attention.triton_kernels.pool import SMALLEST_DOT, LayerPool, dot_dtype, power_of_two

_LOG2_E = 1.4426950408889634


@triton.jit
def _prefill(
    query: tl.tensor,
    values: tl.tensor,
    scales: tl.tensor,
    tables: tl.tensor,
    lengths: tl.tensor,
    starts: tl.tensor,
    out: tl.tensor,
    query_row_stride: int,
    query_head_stride: int,
    table_stride: int,
    score_scale: float,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    WINDOW: tl.constexpr,
    QUANTISED: tl.constexpr,
    DIM_BLOCK: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    DOT: tl.constexpr,
) -> None:
    sequence = tl.program_id(2)
    head = tl.program_id(1)
    tile = tl.program_id(0) * QUERIES
    row = tl.load(starts + sequence).to(tl.int64)
    count = (tl.load(starts + sequence + 1) - row).to(tl.int32)
    if tile < count:
        kv_head = head // (HEADS // KV_HEADS)
        past = tl.load(lengths + sequence) - count
        chunk = tile + tl.arange(0, QUERIES)
        position = past + chunk
        dims = tl.arange(0, DIM_BLOCK)
        inside = (chunk[:, None] < count) & (dims[None, :] < DIM)
        place_in = (row + chunk)[:, None] * query_row_stride + head * query_head_stride + dims[None, :]
        asked = tl.load(query + place_in, mask=inside, other=0.0).to(DOT)

        oldest = tl.maximum(past + tile - WINDOW + 1, 0) if WINDOW > 0 else 0
        end = past + tl.minimum(tile + QUERIES, count)
        peak = tl.full((QUERIES,), -float("inf"), tl.float32)
        total = tl.zeros((QUERIES,), tl.float32)
        mixed = tl.zeros((QUERIES, DIM_BLOCK), tl.float32)
        for start in range(oldest // KEYS * KEYS, end, KEYS):
            tokens = start + tl.arange(0, KEYS)
            held = (tokens >= oldest) & (tokens < end)
            block = tl.load(tables + sequence * table_stride + tokens // BLOCK_SIZE, mask=held, other=0)
            slot = block.to(tl.int64) * BLOCK_SIZE + tokens % BLOCK_SIZE
            place = slot * (2 * KV_HEADS) + kv_head
            readable = held[:, None] & (dims[None, :] < DIM)
            keys = tl.load(values + place[:, None] * DIM + dims[None, :], mask=readable, other=0.0).to(DOT)
            scores = tl.dot(asked, tl.trans(keys), input_precision="ieee") * score_scale
            if QUANTISED:
                scores = scores * tl.load(scales + place, mask=held, other=0.0)[None, :]
            seen = held[None, :] & (tokens[None, :] <= position[:, None])
            if WINDOW > 0:
                seen = seen & (tokens[None, :] > position[:, None] - WINDOW)
            scores = tl.where(seen, scores, -float("inf"))
            higher = tl.maximum(peak, tl.max(scores, axis=1))
            # A row that has seen nothing yet has no finite peak to subtract.
            base = tl.where(higher == -float("inf"), 0.0, higher)
            chances = tl.exp2(scores - base[:, None])
            fade = tl.exp2(peak - base)
            total = total * fade + tl.sum(chances, axis=1)
            if QUANTISED:
                chances = chances * tl.load(scales + place + KV_HEADS, mask=held, other=0.0)[None, :]
            found = tl.load(values + (place + KV_HEADS)[:, None] * DIM + dims[None, :], mask=readable, other=0.0)
            mixed = mixed * fade[:, None] + tl.dot(chances.to(DOT), found.to(DOT), input_precision="ieee")
            peak = higher

        answer = mixed / tl.where(total > 0, total, 1.0)[:, None]
        place_out = ((row + chunk)[:, None] * HEADS + head) * DIM + dims[None, :]
        tl.store(out + place_out, answer.to(out.dtype.element_ty), mask=inside)


@dataclass(frozen=True, slots=True)
class PrefillBatch:
    """The chunks of a prefill launch, on the device.

    Attributes:
        tables: int32 [B, widest table]; entries a chunk does not look at may be anything.
        lengths: int32 [B], tokens in the pool, the chunk's own included.
        starts: int32 [B + 1], row at which each chunk begins, and where the last one ends.
        longest: tokens of the longest chunk.
    """

    tables: torch.Tensor
    lengths: torch.Tensor
    starts: torch.Tensor
    longest: int


def prefill_attention(
    query: torch.Tensor,
    pool: LayerPool,
    batch: PrefillBatch,
    out: torch.Tensor,
    *,
    score_scale: float,
    window: int | None = None,
) -> None:
    """Attend each chunk's queries to all tokens up to their own; see `decode.decode_attention` for the arguments.

    Args:
        query: [R, H, D] with D dense, chunk after chunk.
        pool: keys and values, the chunks' own stored already.
        batch: whose queries they are.
        out: contiguous [R, H, D], filled.
        score_scale: multiplies the scores.
        window: tokens a query may look back, itself included; None for all.
    """
    heads, dim = query.shape[1:]
    dim_block = max(SMALLEST_DOT, power_of_two(dim))
    queries, keys, warps, stages = _shape_of(dim_block)
    _prefill[(triton.cdiv(batch.longest, queries), heads, batch.lengths.shape[0])](
        query,
        pool.values,
        pool.scale_pointer,
        batch.tables,
        batch.lengths,
        batch.starts,
        out,
        query.stride(0),
        query.stride(1),
        batch.tables.stride(0),
        score_scale * _LOG2_E,
        HEADS=heads,
        KV_HEADS=pool.kv_heads,
        DIM=dim,
        BLOCK_SIZE=pool.block_size,
        WINDOW=window or 0,
        QUANTISED=pool.scales is not None,
        DIM_BLOCK=dim_block,
        QUERIES=queries,
        KEYS=keys,
        DOT=dot_dtype(query),
        num_warps=warps,
        num_stages=stages,
    )


def _shape_of(dim_block: int) -> tuple[int, int, int, int]:
    """Queries and keys of a tile, warps and pipeline stages; by head size alone, and never tuned by batch."""
    return (128, 64, 8, 3) if dim_block <= 128 else (64, 32, 4, 2)  # noqa: PLR2004
