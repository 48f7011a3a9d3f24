"""Attention by copying a sequence's keys and values out of the pool and torch's own kernel: right on any device.

Legend: R rows of the step, T rows of a segment, N keys it looks at, H query heads, K KV heads, D head size.

A sequence reads exactly its own N slots and nothing else, so what another sequence left in a recycled block, or
in the unwritten rest of the last one, cannot reach it: there is no mask that would have to hide it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from engine.attention.contract import LayerAttention, Segment
from engine.attention.paged import PagedKV


@dataclass(frozen=True, slots=True)
class _Look:
    """What a segment looks at in one group.

    Attributes:
        slots: int64 [N], of the positions from the first in any row's window to the segment's end.
        mask: fp32 [T, N], 0 where a row may look, -inf elsewhere; None when T = 1, or when it is plainly causal.
    """

    rows: slice
    slots: torch.Tensor
    mask: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class _Reach:
    """One group in one step.

    Attributes:
        written: int64, rows whose keys and values are stored; None for all that segments have.
        write_slots: int64, where they go.
    """

    looks: tuple[_Look, ...]
    written: torch.Tensor | None
    write_slots: torch.Tensor


class _Step:
    """A `LayerAttention` over one step."""

    def __init__(self, backend: "GatheredAttention", reaches: tuple[_Reach, ...], num_rows: int) -> None:
        self._backend = backend
        self._reaches = reaches
        self._num_rows = num_rows
        self._out: torch.Tensor | None = None

    def __call__(self, layer: int, rows: torch.Tensor) -> torch.Tensor:
        """Store keys and values, then attend."""
        kv, heads = self._backend.kv, self._backend.heads
        reach = self._reaches[kv.group_of(layer)]
        fresh = rows[: self._num_rows, heads:]
        kv.write(layer, reach.write_slots, fresh if reach.written is None else fresh[reach.written])
        if self._out is None:
            self._out = rows.new_zeros(len(rows), heads * rows.shape[2])
        for look in reach.looks:
            self._out[look.rows] = self._backend.look(layer, rows[look.rows, :heads], look)
        return self._out


class GatheredAttention:
    """Gather and scaled_dot_product_attention; see `engine.attention.contract.AttentionBackend`."""

    def __init__(self, kv: PagedKV, heads: int, score_scale: float) -> None:
        self.kv = kv
        self.heads = heads
        self._score_scale = score_scale
        self._offsets = torch.arange(kv.shape.block_size)

    def step(self, segments: Sequence[Segment]) -> LayerAttention:
        """Turn tables into slots and windows into masks, once for all layers of a group."""
        reaches = tuple(self._reach(group, segments) for group in range(len(self.kv.pools)))
        return _Step(self, reaches, sum(segment.count for segment in segments))

    def look(self, layer: int, query: torch.Tensor, look: _Look) -> torch.Tensor:
        """Attend from query [T, H, D]; return [T, H * D]."""
        count, heads, head_dim = query.shape
        keys, values = self.kv.read(layer, look.slots, query.dtype)
        if count == 1:
            # The query heads of a KV head become rows of one head: exact, and nothing is repeated.
            folded = query.view(1, self.kv.shape.kv_heads, -1, head_dim)
            found = functional.scaled_dot_product_attention(folded, keys, values, scale=self._score_scale)
            return found.reshape(1, heads * head_dim)
        found = functional.scaled_dot_product_attention(
            query.transpose(0, 1).unsqueeze(0),
            keys,
            values,
            attn_mask=None if look.mask is None else look.mask.to(query.dtype),
            is_causal=look.mask is None,
            scale=self._score_scale,
            enable_gqa=True,
        )
        return found.transpose(1, 2).reshape(count, heads * head_dim)

    def _reach(self, group: int, segments: Sequence[Segment]) -> _Reach:
        window = self.kv.pools[group].group.window
        looks: list[_Look] = []
        write_slots: list[torch.Tensor] = []
        written: list[torch.Tensor] = []
        for segment in segments:
            first = 0 if window is None else max(0, segment.start + 1 - window)
            slots = self._slots(segment.tables[group], first, segment.end)
            mask = self._mask(segment, first, window)
            looks.append(_Look(slice(segment.row, segment.row + segment.count), slots, mask))
            kept = max(0, min(segment.count, segment.end - segment.write_from))
            write_slots.append(slots[len(slots) - kept :])
            written.append(torch.arange(segment.row + segment.count - kept, segment.row + segment.count))
        chosen = torch.cat(written)
        everything = len(chosen) == sum(segment.count for segment in segments)
        rows = None if everything else chosen.to(self.kv.shape.device)
        return _Reach(tuple(looks), rows, torch.cat(write_slots))

    def _slots(self, table: Sequence[int], first: int, end: int) -> torch.Tensor:
        size = self.kv.shape.block_size
        from_block = first // size
        blocks = torch.tensor(table[from_block : -(-end // size)], dtype=torch.int64).unsqueeze(1)
        slots = (blocks * size + self._offsets).view(-1)[first - from_block * size : end - from_block * size]
        return slots.to(self.kv.shape.device)

    def _mask(self, segment: Segment, first: int, window: int | None) -> torch.Tensor | None:
        """Build the mask of a segment over the keys from position `first` on; None where the kernel needs none."""
        slides = window is not None and segment.end - first > window
        if segment.count == 1 or (segment.start == first == 0 and not slides):
            return None
        device = self.kv.shape.device
        queries = torch.arange(segment.start, segment.end, device=device).unsqueeze(1)
        keys = torch.arange(first, segment.end, device=device)
        hidden = keys > queries
        if window is not None:
            hidden |= keys <= queries - window
        return torch.zeros(hidden.shape, device=device).masked_fill_(hidden, -torch.inf)
