"""Stand-ins for what only a GPU has: recordings that do the step again, attention that reads batches in torch."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch.nn import functional

from engine.attention.contract import LayerAttention
from engine.attention.cuda_batch import StepBatch
from engine.attention.paged import PagedKV


@dataclass
class FakeRecording:
    """Does the step again."""

    step: Callable[[], None]
    replays: int = 0

    def replay(self) -> None:
        self.replays += 1
        self.step()


@dataclass
class FakeRecorder:
    """Repeats what it is told to record; the steps in `fails`, by number, cannot be recorded."""

    device: str = "cpu"
    fails: tuple[int, ...] = ()
    asked: int = 0
    recordings: list[FakeRecording] = field(default_factory=list)

    def record(self, step: Callable[[], None]) -> FakeRecording:
        self.asked += 1
        if self.asked in self.fails:
            raise RuntimeError("operation not permitted when stream is capturing")
        step()
        self.recordings.append(FakeRecording(step))
        return self.recordings[-1]


class TableAttention:
    """Reads a batch's tables row by row; right, and able to be repeated, but asks the device."""

    def __init__(self, kv: PagedKV, heads: int, score_scale: float) -> None:
        self.kv, self.heads, self.score_scale = kv, heads, score_scale

    def plan(self, batch: StepBatch) -> LayerAttention:
        def attend(layer: int, rows: torch.Tensor) -> torch.Tensor:
            group = self.kv.group_of(layer)
            stored = batch.groups[group].write_slots
            self.kv.write(layer, stored[stored >= 0], rows[: len(stored), self.heads :][stored >= 0])
            out = rows.new_zeros(len(rows), self.heads, rows.shape[2])
            starts = [*range(batch.decodes), *(batch.chunk_starts + batch.decodes).tolist()]
            for index, length in enumerate(batch.lengths.tolist()):
                first, end = starts[index], starts[index + 1] if index + 1 < len(starts) else starts[index] + 1
                if length:
                    out[first:end] = self.look(batch, (group, layer, index), rows[first:end, : self.heads])
            return out.view(len(rows), -1)

        return attend

    def look(self, batch: StepBatch, where: tuple[int, int, int], query: torch.Tensor) -> torch.Tensor:
        group, layer, index = where
        size = self.kv.shape.block_size
        length = int(batch.lengths[index])
        window = self.kv.pools[group].group.window or length
        positions = torch.arange(length - len(query), length)[:, None]
        first = max(0, length - len(query) + 1 - window)
        tokens = torch.arange(first, length)
        slots = batch.groups[group].tables[index].long()[tokens // size] * size + tokens % size
        keys, values = self.kv.read(layer, slots, query.dtype)
        seen = (tokens <= positions) & (tokens > positions - window)
        found = functional.scaled_dot_product_attention(
            query.transpose(0, 1)[None], keys, values, attn_mask=seen, scale=self.score_scale, enable_gqa=True
        )
        return found[0].transpose(0, 1)
