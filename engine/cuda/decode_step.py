"""A decode step over buffers that never move: what a CUDA graph records.

Legend: R rows, padding included; V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from engine.attention.cuda_batch import BatchAttention, GroupRows, StepBatch
from engine.cuda.device_kv import DeviceKV
from engine.cuda.tables import DeviceTables
from engine.models.contract import Model, StepInput


@dataclass(frozen=True, slots=True)
class StepParts:
    """What every step works with."""

    model: Model
    kv: DeviceKV
    attention: BatchAttention
    tables: DeviceTables


@dataclass(frozen=True, slots=True)
class DecodeRow:
    """One sequence's next token.

    Attributes:
        place: of its tables.
        stored: whether its key and value are written; not where they lie in a shared block already.
    """

    token_id: int
    position: int
    place: int
    stored: bool


class DecodeStep:
    """One token each of up to `max_rows` sequences.

    Attributes:
        logits: fp32 [max_rows, V], of the latest step.
        greedy: int64 [max_rows], the best token of each row.
        best: fp32 [max_rows], its logit; NaN where a row has one.
    """

    def __init__(self, parts: StepParts, max_rows: int) -> None:
        device = parts.kv.shape.device
        self._parts = parts
        self._pinned = torch.device(device).type == "cuda"
        self._staging = torch.zeros(5, max_rows, dtype=torch.int64, pin_memory=self._pinned)
        self._inputs = self._staging.to(device)
        self._sent: torch.cuda.Event | None = None
        self._ends = torch.zeros(1, dtype=torch.int32, device=device)
        self.logits = torch.zeros(max_rows, parts.model.config.vocab, device=device)
        self.greedy = torch.zeros(max_rows, dtype=torch.int64, device=device)
        self.best = torch.zeros(max_rows, device=device)
        self.fill(())

    def fill(self, rows: Sequence[DecodeRow]) -> None:
        """Send the rows to the device; all others become padding, which looks at nothing and writes aside."""
        if self._sent is not None:
            self._sent.synchronize()
        count = len(rows)
        staged = self._staging.numpy()
        staged[:, count:] = 0
        staged[2, count:] = self._parts.tables.padding
        if count:
            staged[:, :count] = list(
                zip(
                    *((row.token_id, row.position, row.place, row.stored, row.position + 1) for row in rows),
                    strict=True,
                )
            )
        self._inputs.copy_(self._staging, non_blocking=self._pinned)
        if self._pinned:
            self._sent = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._sent.record()

    def compute(self, rows: int, longest: int) -> None:
        """Run the step over the first rows, none of which has more than `longest` tokens; fill the results."""
        parts = self._parts
        ids, positions, places, stored, lengths = self._inputs[:, :rows]
        batch = StepBatch(
            decodes=rows,
            longest=longest,
            lengths=lengths.to(torch.int32),
            chunk_starts=self._ends,
            longest_chunk=0,
            groups=tuple(
                group_rows(parts, group, places, (positions, stored)) for group in range(len(parts.kv.pools))
            ),
        )
        step = StepInput(
            ids=ids,
            positions=positions,
            logit_rows=torch.arange(rows, device=ids.device),
            num_logits=rows,
            attend=parts.attention.plan(batch),
        )
        self.logits[:rows].copy_(parts.model.forward(step))
        torch.max(self.logits[:rows], dim=-1, out=(self.best[:rows], self.greedy[:rows]))


def group_rows(
    parts: StepParts,
    group: int,
    places: torch.Tensor,
    written: tuple[torch.Tensor, torch.Tensor],
    sequence_of_row: torch.Tensor | None = None,
) -> GroupRows:
    """Look up tables and write slots on the device.

    Args:
        parts: of the runner.
        group: which KV group.
        places: int64 [B].
        written: int64 [R] positions, and int64 [R], 0 where the row is not stored.
        sequence_of_row: int64 [R], index into places; None where row i is sequence i's.
    """
    size = parts.kv.shape.block_size
    positions, stored = written
    tables = parts.tables.tensors[group].index_select(0, places)
    of_row = torch.arange(len(positions), device=places.device) if sequence_of_row is None else sequence_of_row
    blocks = tables[of_row, positions // size].long()
    aside = parts.kv.null_blocks[group] * size
    return GroupRows(tables, torch.where(stored > 0, blocks * size + positions % size, aside))
