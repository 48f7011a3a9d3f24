"""Paged attention by our own Triton kernels: decodes split along their keys, chunks tile by tile.

Legend: R rows, H query heads, K KV heads, D head size.
"""

from collections.abc import Sequence

import torch

from engine.attention.contract import LayerAttention, Segment
from engine.attention.cuda_batch import ChunkAttention, ChunkPlanner, StepBatch, batch_of
from engine.attention.paged import PagedKV
from engine.attention.triton_kernels.decode import DecodeBatch, decode_attention, splits_for
from engine.attention.triton_kernels.pool import LayerPool
from engine.attention.triton_kernels.prefill import PrefillBatch, prefill_attention
from engine.attention.triton_kernels.store import store_rows


class TritonAttention:
    """Attention on the device that holds the pool; see `engine.attention.contract.AttentionBackend`.

    A row has the same bits whatever is beside it, and does not depend on how its prompt was cut.
    """

    def __init__(self, kv: PagedKV, heads: int, score_scale: float, chunks: ChunkPlanner | None = None) -> None:
        self.kv = kv
        self.heads = heads
        self.score_scale = score_scale
        self._pools = _layer_pools(kv)
        self._chunks = chunks or TritonChunks(kv, heads, score_scale)

    def step(self, segments: Sequence[Segment]) -> LayerAttention:
        """Turn the segments into tensors, those of one row first, and plan them."""
        ordered = sorted(segments, key=lambda segment: segment.count > 1)
        shape = self.kv.shape
        attend = self.plan(batch_of(ordered, len(self.kv.pools), shape.block_size, shape.device))
        if ordered == list(segments):
            return attend
        rows = [row for segment in ordered for row in range(segment.row, segment.row + segment.count)]
        return _Reordered(attend, torch.tensor(rows).to(shape.device))

    def plan(self, batch: StepBatch) -> LayerAttention:
        """Plan a step that lies on the device already; captured in a graph, it reads the batch anew each time."""
        return _Step(self, batch, self._chunks.plan(batch) if batch.chunks else None)

    def store_and_decode(self, layer: int, rows: torch.Tensor, batch: StepBatch, out: torch.Tensor) -> None:
        """Store the keys and values of all rows, and attend from those of one-row sequences."""
        group = self.kv.group_of(layer)
        of_group, pool = batch.groups[group], self._pools[layer]
        stored = of_group.write_slots.shape[0]
        store_rows(rows[:stored, self.heads :], of_group.write_slots, pool)
        if batch.decodes == 0:
            return
        window = self.kv.pools[group].group.window
        decode = DecodeBatch(
            of_group.tables, batch.lengths, splits_for(min(batch.longest, window or batch.longest))
        )
        queries = slice(batch.decodes)
        decode_attention(
            rows[queries, : self.heads], pool, decode, out[queries], score_scale=self.score_scale, window=window
        )


class TritonChunks:
    """Chunks by our own kernel; a `ChunkPlanner`."""

    def __init__(self, kv: PagedKV, heads: int, score_scale: float) -> None:
        self._kv = kv
        self._heads = heads
        self._score_scale = score_scale
        self._pools = _layer_pools(kv)

    def plan(self, batch: StepBatch) -> ChunkAttention:
        """Bind the batch; the kernel itself needs no plan."""

        def attend(layer: int, rows: torch.Tensor, out: torch.Tensor) -> None:
            query = rows[:, : self._heads]
            group = self._kv.group_of(layer)
            prefill = PrefillBatch(
                tables=batch.groups[group].tables[batch.decodes :],
                lengths=batch.lengths[batch.decodes :],
                starts=batch.chunk_starts,
                longest=batch.longest_chunk,
            )
            window = self._kv.pools[group].group.window
            prefill_attention(
                query, self._pools[layer], prefill, out, score_scale=self._score_scale, window=window
            )

        return attend


class _Step:
    """A `LayerAttention` over one step."""

    def __init__(self, backend: TritonAttention, batch: StepBatch, chunks: ChunkAttention | None) -> None:
        self._backend = backend
        self._batch = batch
        self._chunks = chunks
        self._out: torch.Tensor | None = None

    def __call__(self, layer: int, rows: torch.Tensor) -> torch.Tensor:
        """Store keys and values, then attend."""
        backend, batch = self._backend, self._batch
        if self._out is None:
            self._out = rows.new_zeros(len(rows), backend.heads, rows.shape[2])
        backend.store_and_decode(layer, rows, batch, self._out)
        if self._chunks is not None:
            stored = batch.groups[0].write_slots.shape[0]
            chunk = slice(batch.decodes, stored)
            self._chunks(layer, rows[chunk], self._out[chunk])
        return self._out.view(len(rows), -1)


class _Reordered:
    """A `LayerAttention` for rows that lie in another order than the batch's."""

    def __init__(self, attend: LayerAttention, order: torch.Tensor) -> None:
        self._attend = attend
        self._order = order

    def __call__(self, layer: int, rows: torch.Tensor) -> torch.Tensor:
        """Pick the rows, attend, and put the results where they belong."""
        found = self._attend(layer, rows[self._order])
        out = found.new_zeros(len(rows), found.shape[1])
        out[self._order] = found
        return out


def _layer_pools(kv: PagedKV) -> dict[int, LayerPool]:
    return {
        layer: LayerPool(
            pool.values[place], None if pool.scales is None else pool.scales[place], kv.shape.block_size
        )
        for pool in kv.pools
        for place, layer in enumerate(pool.group.layers)
    }
