"""A step of any shape as tensors on the device: sequences of one row first, longer chunks behind them.

Legend: R rows, B sequences.
"""

from collections.abc import Sequence
from itertools import accumulate

import torch

from engine.attention.contract import Segment
from engine.attention.cuda_batch import StepBatch
from engine.cuda.decode_step import StepParts, group_rows
from engine.models.contract import StepInput
from engine.work import Work


def eager_step(parts: StepParts, work: Sequence[Work], places: Sequence[int]) -> StepInput:
    """Lay a plan's work out and send it to the device in one piece.

    Args:
        parts: of the runner.
        work: not empty.
        places: of its sequences' tables.

    Returns:
        The step; its logit rows are those of the work that samples, in the order of the work.
    """
    device = parts.kv.shape.device
    order = sorted(range(len(work)), key=lambda index: work[index].count > 1)
    items = [work[index] for index in order]
    firsts = [0, *accumulate(item.count for item in items)]
    last_row = {index: firsts[place + 1] - 1 for place, index in enumerate(order)}
    logit_rows = [last_row[index] for index, item in enumerate(work) if item.samples]
    ids, positions, stored, sequence_of_row, lengths, of_place, wanted = _sent(
        [
            [token for item in items for token in item.sequence.tokens(item.start, item.start + item.count)],
            [position for item in items for position in range(item.start, item.start + item.count)],
            [int(at >= item.write_from) for item in items for at in range(item.start, item.start + item.count)],
            [index for index, item in enumerate(items) for _ in range(item.count)],
            [item.start + item.count for item in items],
            [places[index] for index in order],
            logit_rows,
        ],
        device,
    )
    decodes = sum(item.count == 1 for item in items)
    chunks = [item.count for item in items[decodes:]]
    batch = StepBatch(
        decodes=decodes,
        longest=max((item.start + 1 for item in items[:decodes]), default=0),
        lengths=lengths.to(torch.int32),
        chunk_starts=torch.tensor([0, *accumulate(chunks)], dtype=torch.int32).to(device),
        longest_chunk=max(chunks, default=0),
        groups=tuple(
            group_rows(parts, group, of_place, (positions, stored), sequence_of_row)
            for group in range(len(parts.kv.pools))
        ),
        segments=tuple(
            Segment(row, item.start, item.count, item.write_from, item.sequence.tables)
            for row, item in zip(firsts, items, strict=False)
        ),
    )
    return StepInput(ids, positions, wanted, len(logit_rows), parts.attention.plan(batch))


def _sent(lists: Sequence[Sequence[int]], device: str) -> tuple[torch.Tensor, ...]:
    """Send lists as one int64 tensor, and return a view for each."""
    flat = torch.tensor([value for values in lists for value in values], dtype=torch.int64).to(device)
    return torch.split(flat, [len(values) for values in lists])
