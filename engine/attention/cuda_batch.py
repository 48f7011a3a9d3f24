"""A step as GPU kernels take it: tensors on the device, sequences of one row before longer chunks.

Legend: R rows, B sequences, W blocks of the widest table, S slots, H query heads, K KV heads, D head size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import torch

from engine.attention.contract import AttentionBackend, LayerAttention, Segment
from engine.attention.paged import PagedKV
from engine.kv.contract import NULL_BLOCK


@dataclass(frozen=True, slots=True)
class GroupRows:
    """What a step means for one KV group.

    Attributes:
        tables: int32 [B, W]; entries that no row may look at hold anything.
        write_slots: int64 [R], where each row's keys and values go; negative for nowhere.
    """

    tables: torch.Tensor
    write_slots: torch.Tensor


@dataclass(frozen=True, slots=True)
class StepBatch:
    """The sequences of a step.

    Attributes:
        decodes: sequences with one row; they come first, and row i is theirs.
        longest: none of these has more tokens in the pool.
        lengths: int32 [B], tokens in the pool, the step's own included; 0 for a padded row.
        chunk_starts: int32 [B - decodes + 1], first row of each longer chunk from row `decodes` on, and the end.
        longest_chunk: rows of the longest one.
        groups: one per KV group.
        segments: the same sequences on the host; empty in a step that is to be recorded.
    """

    decodes: int
    longest: int
    lengths: torch.Tensor
    chunk_starts: torch.Tensor
    longest_chunk: int
    groups: tuple[GroupRows, ...]
    segments: tuple[Segment, ...] = ()

    @property
    def chunks(self) -> int:
        """Sequences with more than one row."""
        return self.lengths.shape[0] - self.decodes


class BatchAttention(Protocol):
    """Attention over one KV pool for steps that lie on the device."""

    def plan(self, batch: StepBatch) -> LayerAttention:
        """Prepare what all layers of the step share."""
        ...


class SegmentAttention:
    """Lets a backend that takes segments take batches; steps with it cannot be recorded."""

    def __init__(self, backend: AttentionBackend) -> None:
        self._backend = backend

    def plan(self, batch: StepBatch) -> LayerAttention:
        """Plan the batch's segments."""
        return self._backend.step(batch.segments)


ChunkAttention = Callable[[int, torch.Tensor, torch.Tensor], None]
"""From a layer's index and the chunks' rows [R, H + 2K, D] into [R, H, D]; keys and values are stored already."""


class ChunkPlanner(Protocol):
    """Attention for the chunks of steps."""

    def __init__(self, kv: PagedKV, heads: int, score_scale: float) -> None:
        """Take the pool, the number of query heads, and what multiplies scores."""
        ...

    def plan(self, batch: StepBatch) -> ChunkAttention:
        """Prepare what all layers of the step share."""
        ...


def batch_of(segments: Sequence[Segment], groups: int, block_size: int, device: str) -> StepBatch:
    """Turn segments into tensors; those of one row must come first.

    Args:
        segments: of the step.
        groups: KV groups.
        block_size: slots in a block.
        device: of the tensors.
    """
    decodes = sum(segment.count == 1 for segment in segments)
    chunks = [segment.count for segment in segments[decodes:]]
    return StepBatch(
        decodes=decodes,
        longest=max((segment.end for segment in segments[:decodes]), default=0),
        lengths=_ints([segment.end for segment in segments], device),
        chunk_starts=_ints([0, *accumulate(chunks)], device),
        longest_chunk=max(chunks, default=0),
        groups=tuple(_group(segments, group, block_size, device) for group in range(groups)),
        segments=tuple(segments),
    )


def _group(segments: Sequence[Segment], group: int, block_size: int, device: str) -> GroupRows:
    tables = [segment.tables[group] for segment in segments]
    widest = max(len(table) for table in tables)
    slots = [
        segment.tables[group][position // block_size] * block_size + position % block_size
        if position >= segment.write_from
        else -1
        for segment in segments
        for position in range(segment.start, segment.end)
    ]
    padded = [[*table, *[NULL_BLOCK] * (widest - len(table))] for table in tables]
    return GroupRows(_ints(padded, device), torch.tensor(slots, dtype=torch.int64).to(device))


def _ints(values: Sequence[int] | Sequence[Sequence[int]], device: str) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32).to(device)
