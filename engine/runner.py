"""A plan as tensors: the only room where sequences meet the model."""

from collections.abc import Iterable, Sequence

import torch

from engine.attention.paged import PagedKV, Segment, chunk_mask
from engine.config import EngineConfig
from engine.kernels import padded_rows
from engine.models.contract import Model, StepInput
from engine.work import Plan, Work


class Runner:
    """Runs steps of one model over one KV pool; never decides who runs."""

    def __init__(self, model: Model, config: EngineConfig) -> None:
        self.model = model
        self._block_size = config.block_size
        shape = model.config
        slots = config.num_blocks * config.block_size
        self.kv = PagedKV(shape.layers, slots, shape.kv_heads, shape.head_dim)
        self._offsets = torch.arange(config.block_size)

    @torch.inference_mode()
    def run(self, plan: Plan) -> torch.Tensor:
        """Compute the plan's work and store its keys and values.

        Returns:
            fp32 logits [samples, vocabulary], one row per work item that samples, in the order of the work.
        """
        return self.model.forward(self._step_input(plan.work), self.kv)

    def _step_input(self, work: Sequence[Work]) -> StepInput:
        ids: list[int] = []
        positions: list[int] = []
        segments: list[Segment] = []
        logit_rows: list[int] = []
        for item in work:
            end = item.start + item.count
            mask = chunk_mask(item.count, end)
            segments.append(Segment(len(ids), item.count, self._slots(item.sequence.tables[0], end), mask))
            ids += item.sequence.tokens(item.start, end)
            positions += range(item.start, end)
            if item.samples:
                logit_rows.append(len(ids) - 1)
        return StepInput(
            ids=_padded(ids),
            positions=_padded(positions),
            num_tokens=len(ids),
            write_slots=torch.cat([segment.slots[-segment.count :] for segment in segments]),
            segments=tuple(segments),
            logit_rows=_padded(logit_rows),
            num_logits=len(logit_rows),
        )

    def _slots(self, block_table: Iterable[int], count: int) -> torch.Tensor:
        blocks = torch.tensor(block_table).unsqueeze(1)
        return (blocks * self._block_size + self._offsets).view(-1)[:count]


def _padded(values: list[int]) -> torch.Tensor:
    return torch.tensor(values + [0] * (padded_rows(len(values)) - len(values)), dtype=torch.int64)
