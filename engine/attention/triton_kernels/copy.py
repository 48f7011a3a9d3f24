"""Slots copied inside the pool, for copy-on-write."""

import torch
import triton
import triton.language as tl

_WORDS = 1024


@triton.jit
def _copy(
    words: tl.tensor,
    sources: tl.tensor,
    targets: tl.tensor,
    layer_stride: tl.int64,
    WIDTH: tl.constexpr,
    WORDS: tl.constexpr,
) -> None:
    pair = tl.program_id(0)
    base = words + tl.program_id(1).to(tl.int64) * layer_stride
    source = tl.load(sources + pair).to(tl.int64) * WIDTH
    target = tl.load(targets + pair).to(tl.int64) * WIDTH
    for start in range(0, WIDTH, WORDS):
        place = start + tl.arange(0, WORDS)
        found = tl.load(base + source + place, mask=place < WIDTH)
        tl.store(base + target + place, found, mask=place < WIDTH)


def copy_slots(pool: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor) -> None:
    """Copy slots to slots in every layer, bit for bit.

    Args:
        pool: contiguous [layers, S, ...] of any type, a multiple of four bytes per slot.
        sources: int64 [N], each in none of the targets.
        targets: int64 [N], all different.
    """
    words = pool.view(pool.shape[0], pool.shape[1], -1).view(torch.int32)
    _copy[(sources.shape[0], pool.shape[0])](
        words, sources, targets, words.stride(0), WIDTH=words.shape[2], WORDS=_WORDS, num_warps=4
    )
