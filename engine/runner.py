"""A plan as tensors: the only room where sequences meet the model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from engine.attention import AttentionBackend, attention_class
from engine.attention.contract import Segment
from engine.attention.paged import KvShape, PagedKV
from engine.kernels import padded_rows
from engine.kv.contract import Transfers
from engine.loader.contract import ModelConfig
from engine.models.contract import Model, StepInput
from engine.models.decoder import Decoder
from engine.models.decoder_weights import DecoderWeights
from engine.work import Plan, Work

SaveSink = Callable[[bytes, int, bytes], None]
"""Takes the digest, the group and the bytes of a block that was read out."""


@dataclass(frozen=True, slots=True)
class RunnerSpec:
    """How a model is to be run.

    Attributes:
        linear: a name in `engine.kernels.LINEARS`.
        num_blocks: blocks of each KV group, in the order of `ModelConfig.kv_groups`.
        block_size: tokens in a block.
        kv_dtype: a name in `engine.attention.paged.KV_FORMATS`.
        attention: a name in `engine.attention.ATTENTION`.
        device: where weights and KV pool lie.
    """

    linear: str
    num_blocks: tuple[int, ...]
    block_size: int
    kv_dtype: str = "fp32"
    attention: str = "sdpa"
    device: str = "cpu"


def _discard(digest: bytes, group: int, payload: bytes) -> None:
    """Keep nothing."""


class Runner:
    """Runs steps of one model over one KV pool; never decides who runs."""

    any_chunks = False

    def __init__(self, model: Model, kv: PagedKV, attention: AttentionBackend, saved: SaveSink = _discard) -> None:
        self.model = model
        self.kv = kv
        self.attention = attention
        self._saved = saved

    @torch.inference_mode()
    def run(self, plan: Plan) -> torch.Tensor:
        """Carry out the plan's transfers, compute its work and store its keys and values.

        Returns:
            fp32 logits [samples, vocabulary], one row per work item that samples, in the order of the work.
        """
        self._transfer(plan.transfers)
        if not plan.work:
            return torch.empty(0, self.model.config.vocab)
        return self.model.forward(self._step_input(plan.work))

    def _transfer(self, transfers: Transfers) -> None:
        for save in transfers.saves:
            self._saved(save.digest, save.group, self.kv.read_block(save.group, save.block))
        for restore in transfers.restores:
            self.kv.write_block(restore.group, restore.block, restore.payload)
        self.kv.copy(transfers.copies)

    def _step_input(self, work: Sequence[Work]) -> StepInput:
        ids: list[int] = []
        positions: list[int] = []
        segments: list[Segment] = []
        logit_rows: list[int] = []
        for item in work:
            segment = Segment(len(ids), item.start, item.count, item.write_from, item.sequence.tables)
            segments.append(segment)
            ids += item.sequence.tokens(item.start, segment.end)
            positions += range(item.start, segment.end)
            if item.samples:
                logit_rows.append(len(ids) - 1)
        device = self.kv.shape.device
        return StepInput(
            ids=_padded(ids),
            positions=_padded(positions).to(device),
            logit_rows=_padded(logit_rows).to(device),
            num_logits=len(logit_rows),
            attend=self.attention.step(segments),
        )


def _padded(values: list[int]) -> torch.Tensor:
    return torch.tensor(values + [0] * (padded_rows(len(values)) - len(values)), dtype=torch.int64)


@torch.inference_mode()
def build_runner(
    config: ModelConfig, weights: DecoderWeights, spec: RunnerSpec, saved: SaveSink = _discard
) -> Runner:
    """Pack the weights, reserve the KV pool, and make the runner of both.

    Raises:
        EngineError: a name in the spec is unknown.
        RuntimeError: this machine lacks a kernel or the memory.
    """
    shape = KvShape(config.kv_heads, config.head_dim, spec.block_size, spec.kv_dtype, spec.device)
    kv = PagedKV(config.kv_groups, spec.num_blocks, shape)
    attention = attention_class(spec.attention)(kv, config.heads, config.score_scale)
    return Runner(Decoder.build(config, weights, spec.linear), kv, attention, saved)
