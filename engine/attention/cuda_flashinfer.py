"""Prompt chunks by FlashInfer, in layers without a window; those with one stay with our own kernel.

A pool's keys and values interleave by token, which FlashInfer reads by stride: pages [blocks, block size, K, D].
"""

import flashinfer
import torch

from engine.attention.cuda_batch import ChunkAttention, StepBatch
from engine.attention.paged import KV_FORMATS, PagedKV
from engine.attention.triton_attention import TritonChunks

_WORKSPACE_BYTES = 128 << 20


class FlashInferChunks:
    """A `ChunkPlanner`."""

    def __init__(self, kv: PagedKV, heads: int, score_scale: float) -> None:
        self._kv = kv
        self._heads = heads
        self._score_scale = score_scale
        self._windowed = TritonChunks(kv, heads, score_scale)
        workspace = torch.empty(_WORKSPACE_BYTES, dtype=torch.uint8, device=kv.shape.device)
        self._wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace, "NHD")

    def plan(self, batch: StepBatch) -> ChunkAttention:
        """Plan the chunks on the host, once for all layers that look at everything."""
        windowed = self._windowed.plan(batch)
        everything = [index for index, pool in enumerate(self._kv.pools) if pool.group.window is None]
        if everything:
            self._plan(batch, everything[0])

        def attend(layer: int, rows: torch.Tensor, out: torch.Tensor) -> None:
            pool = self._kv.pools[self._kv.group_of(layer)]
            if pool.group.window is not None:
                windowed(layer, rows, out)
                return
            kv_heads = self._kv.shape.kv_heads
            values = pool.values[pool.group.layers.index(layer)]
            pages = values.view(-1, self._kv.shape.block_size, *values.shape[1:])
            cache = (pages[:, :, :kv_heads], pages[:, :, kv_heads:])
            self._wrapper.run(rows[:, : self._heads], cache, out=out)

        return attend

    def _plan(self, batch: StepBatch, group: int) -> None:
        shape = self._kv.shape
        chunks = batch.segments[batch.decodes :]
        counts = torch.tensor([-(-segment.end // shape.block_size) for segment in chunks])
        ends = torch.tensor([segment.end for segment in chunks])
        tables = batch.groups[group].tables[batch.decodes :]
        device = tables.device
        index = torch.arange(len(chunks)).repeat_interleave(counts)
        column = torch.cat([torch.arange(int(count)) for count in counts])
        dtype = KV_FORMATS[shape.dtype].dtype
        self._wrapper.plan(
            torch.tensor([0, *(segment.count for segment in chunks)]).cumsum(0).int(),
            torch.cat((torch.zeros(1, dtype=torch.int64), counts.cumsum(0))).int(),
            tables[index.to(device), column.to(device)],
            ((ends - 1) % shape.block_size + 1).int(),
            self._heads,
            shape.kv_heads,
            shape.head_dim,
            shape.block_size,
            causal=True,
            sm_scale=self._score_scale,
            q_data_type=dtype,
            kv_data_type=dtype,
        )
