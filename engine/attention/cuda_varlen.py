"""Prompt chunks by torch's variable-length attention over block tables, which needs FlashAttention 3.

One split of the keys, so that a chunk has the same bits in any company. Layers with a window stay with our own
kernel: what has left the window is gone from their tables.
"""

from typing import Any

import torch
from torch.nn.attention import activate_flash_attention_impl
from torch.nn.attention.varlen import varlen_attn

from engine.attention.cuda_batch import ChunkAttention, StepBatch
from engine.attention.paged import PagedKV
from engine.attention.triton_attention import TritonChunks


class VarlenChunks:
    """A `ChunkPlanner`. Side effects: makes FlashAttention 3 the process's flash attention."""

    def __init__(self, kv: PagedKV, heads: int, score_scale: float) -> None:
        self._kv = kv
        self._heads = heads
        self._score_scale = score_scale
        self._windowed = TritonChunks(kv, heads, score_scale)
        activate_flash_attention_impl("FA3")

    def plan(self, batch: StepBatch) -> ChunkAttention:
        """Bind the batch."""
        windowed = self._windowed.plan(batch)
        longest = max(segment.end for segment in batch.segments[batch.decodes :])

        def attend(layer: int, rows: torch.Tensor, out: torch.Tensor) -> None:
            group = self._kv.group_of(layer)
            pool = self._kv.pools[group]
            if pool.group.window is not None:
                windowed(layer, rows, out)
                return
            kv_heads = self._kv.shape.kv_heads
            values = pool.values[pool.group.layers.index(layer)]
            pages = values.view(-1, self._kv.shape.block_size, *values.shape[1:])
            found: Any = varlen_attn(
                rows[:, : self._heads],
                pages[:, :, :kv_heads],
                pages[:, :, kv_heads:],
                batch.chunk_starts,
                None,
                batch.longest_chunk,
                longest,
                scale=self._score_scale,
                window_size=(-1, 0),
                enable_gqa=True,
                seqused_k=batch.lengths[batch.decodes :],
                block_table=batch.groups[group].tables[batch.decodes :],
                num_splits=1,
            )
            out.copy_(found)

        return attend
