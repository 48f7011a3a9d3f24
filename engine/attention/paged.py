"""The KV pool as tensors, and attention that reads it through slots.

Legend: L layers, S slots (blocks x block size), T tokens of one sequence in this step, N tokens of it in all,
H query heads, K KV heads, G = H / K, D head size.

A sequence reads exactly its own N slots and nothing else, so what another sequence left in a recycled block, or
in the unwritten rest of the last one, cannot reach it: there is no mask that would have to hide it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Segment:
    """The rows of one sequence in a step.

    Attributes:
        row: first row in the step.
        count: T.
        slots: int64 [N], slots of positions 0..N-1, the step's own tokens included.
        mask: fp32 [T, N], 0 where a token may look, -inf elsewhere; None when T = 1, or N = T (plainly causal).
    """

    row: int
    count: int
    slots: torch.Tensor
    mask: torch.Tensor | None


class PagedKV:
    """Keys and values of every layer: fp32 [L, S, 2K, D], a token's K keys beside its K values.

    Memory is reserved, not touched; the system commits a page when it is first written.
    """

    def __init__(self, layers: int, slots: int, kv_heads: int, head_dim: int) -> None:
        self.kv_heads = kv_heads
        self.pool = torch.empty(layers, slots, 2 * kv_heads, head_dim)

    def write(self, layer: int, slots: torch.Tensor, rows: torch.Tensor) -> None:
        """Store rows [T, 2K, D] at slots [T]."""
        self.pool[layer].index_copy_(0, slots, rows)

    def read(self, layer: int, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Copy keys and values out, each [1, K, N, D]."""
        rows = self.pool[layer].index_select(0, slots).transpose(0, 1).unsqueeze(0)
        return rows[:, : self.kv_heads], rows[:, self.kv_heads :]


def attend(query: torch.Tensor, kv: PagedKV, layer: int, segments: Sequence[Segment], out: torch.Tensor) -> None:
    """Attend each segment's queries to its own past; the step's keys and values must be written already.

    Args:
        query: fp32 [rows, H, D].
        kv: the pool.
        layer: which layer of it.
        segments: the sequences of the step.
        out: fp32 [rows, H * D], filled for the segments' rows.
    """
    heads, head_dim = query.shape[1:]
    for segment in segments:
        keys, values = kv.read(layer, segment.slots)
        rows = slice(segment.row, segment.row + segment.count)
        if segment.count == 1:
            folded = query[rows].view(1, kv.kv_heads, heads // kv.kv_heads, head_dim)
            found = functional.scaled_dot_product_attention(folded, keys, values)
            out[rows] = found.reshape(1, heads * head_dim)
            continue
        found = functional.scaled_dot_product_attention(
            query[rows].transpose(0, 1).unsqueeze(0),
            keys,
            values,
            attn_mask=segment.mask,
            is_causal=segment.mask is None,
            enable_gqa=True,
        )
        out[rows] = found.transpose(1, 2).reshape(segment.count, heads * head_dim)


def chunk_mask(count: int, total: int) -> torch.Tensor | None:
    """Build the mask of a chunk's last `count` of `total` positions; None where the kernel needs none."""
    if count in (1, total):
        return None
    return torch.full((count, total), -torch.inf).triu_(total - count + 1)
