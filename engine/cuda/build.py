"""From weights on the host to a runner on a device, sized to what the device has free."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch

from engine.attention.cuda_choice import AttentionChoice, AttentionFacts, attention_choices
from engine.attention.paged import KvShape
from engine.cuda.attend import AttentionShape, first_that_works, importable, make_attention
from engine.cuda.decode_step import StepParts
from engine.cuda.decoder import DeviceDecoder, Placement
from engine.cuda.device_kv import DeviceKV
from engine.cuda.graphs import CudaRecorder, GraphCache, GraphKey, Recorder, decode_buckets
from engine.cuda.kernels import row_ops, slot_copier
from engine.cuda.memory import blocks_that_fit, free_beside
from engine.cuda.rehearsal import rehearse
from engine.cuda.runner import DeviceRunner, Graphs, SaveSink
from engine.cuda.tables import DeviceTables, TableShape
from engine.loader.contract import ModelConfig
from engine.models.decoder_weights import DecoderWeights

_log = logging.getLogger(__name__)

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """How a model is to be run on a device.

    Attributes:
        device: `cuda`, `cuda:0`, ..., or `cpu` in tests.
        block_size: tokens in a KV block.
        max_rows: most sequences in a step.
        step_tokens: most tokens in a step.
        dtype: of weights and activations, a name in `DTYPES`.
        kv_dtype: a name in `engine.attention.paged.KV_FORMATS`.
        attention: `auto`, or who shall attend for prompt chunks: triton, flashinfer, varlen or sdpa.
        num_blocks: of each KV group; None to take `kv_share` of the memory that is left.
        kv_share: (0, 1].
        graphs: whether decode steps are recorded.
    """

    device: str
    block_size: int
    max_rows: int
    step_tokens: int
    dtype: str = "bf16"
    kv_dtype: str = "bf16"
    attention: str = "auto"
    num_blocks: int | None = None
    kv_share: float = 0.9
    graphs: bool = True


@dataclass(frozen=True, slots=True)
class _Builder:
    """A model on its device, and how runners over it are made."""

    config: ModelConfig
    spec: DeviceSpec
    model: DeviceDecoder
    choice: AttentionChoice
    shape: AttentionShape

    def parts(self, num_blocks: int) -> StepParts:
        """Reserve a pool, and tables wide enough for the longest sequence it may hold."""
        spec, groups = self.spec, self.config.kv_groups
        counts = (num_blocks,) * len(groups)
        kv = DeviceKV(groups, counts, self.shape.kv, slot_copier(self.choice.attention))
        width = min(num_blocks, -(-self.config.context // spec.block_size)) + 1
        tables = DeviceTables(TableShape(2 * spec.max_rows, width, kv.null_blocks), spec.device)
        return StepParts(self.model, kv, make_attention(self.choice, kv, self.shape), tables)

    def fitting_blocks(self) -> int:
        """Run the largest step over a small pool, and return how many blocks the rest of the device holds."""
        spec = self.spec
        parts = self.parts(-(-min(spec.step_tokens, self.config.context) // spec.block_size) + 1)
        small = DeviceRunner(parts, spec.max_rows, None, _discard)
        free = free_beside(spec.device, lambda: rehearse(small, spec.step_tokens))
        return blocks_that_fit(
            free, spec.kv_share, [parts.kv.block_bytes(group) for group in range(len(parts.kv.pools))]
        )

    def graphs(self, recorder: Recorder, num_blocks: int) -> Graphs:
        """Say which steps are to be recorded."""
        spec = self.spec
        like = GraphKey(
            rows=0,
            longest=0,
            attention=f"{self.choice.attention}+{self.choice.chunks}",
            dtype=spec.dtype,
            kv_dtype=spec.kv_dtype,
            windows=tuple(group.window for group in self.config.kv_groups),
            adapter=None,
            logit_rows=0,
        )
        longest = min(self.config.context, num_blocks * spec.block_size)
        return Graphs(GraphCache(recorder), decode_buckets(spec.max_rows, longest), like)


def _discard(digest: bytes, group: int, payload: bytes) -> None:
    """Keep nothing."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A model on its device, and how large a pool it gets."""

    builder: _Builder
    num_blocks: int
    recorder: Callable[[str], Recorder]

    @torch.inference_mode()
    def runner(self, saved: SaveSink = _discard) -> DeviceRunner:
        """Reserve the pool and record decode steps; `saved` takes blocks that are read out."""
        builder, spec = self.builder, self.builder.spec
        recorded = spec.graphs and builder.choice.attention != "sdpa"
        graphs = builder.graphs(self.recorder(spec.device), self.num_blocks) if recorded else None
        made = DeviceRunner(builder.parts(self.num_blocks), spec.max_rows, graphs, saved)
        made.record()
        return made


@torch.inference_mode()
def prepare_device(
    config: ModelConfig,
    weights: DecoderWeights,
    spec: DeviceSpec,
    recorder: Callable[[str], Recorder] = CudaRecorder,
) -> Prepared:
    """Copy the weights over, choose attention, and size the pool.

    Args:
        config: the model's shape.
        weights: on the host.
        spec: what to run it on, and how.
        recorder: makes what records steps on a device.

    Raises:
        EngineError: no attention works, or there is no room for keys and values.
        RuntimeError: the device is out of memory.
    """
    dtype = DTYPES[spec.dtype]
    choice, shape = _attention(config, spec)
    ops = row_ops(choice.attention, config, dtype)
    model = DeviceDecoder.build(config, weights, ops, Placement(spec.device, dtype))
    builder = _Builder(config, spec, model, choice, shape)
    num_blocks = builder.fitting_blocks() if spec.num_blocks is None else spec.num_blocks
    _log.info("%s: %d KV blocks, attention by %s and %s", spec.device, num_blocks, choice.attention, choice.chunks)
    return Prepared(builder, num_blocks, recorder)


def _attention(config: ModelConfig, spec: DeviceSpec) -> tuple[AttentionChoice, AttentionShape]:
    """Choose among what this machine has, or take what was asked for; by trial in either case."""
    kv = KvShape(config.kv_heads, config.head_dim, spec.block_size, spec.kv_dtype, spec.device)
    shape = AttentionShape(config.kv_groups, kv, config.heads, config.score_scale, DTYPES[spec.dtype])
    if spec.attention != "auto":
        attention = "sdpa" if spec.attention == "sdpa" else "triton"
        choices: tuple[AttentionChoice, ...] = (AttentionChoice(attention, spec.attention, "asked for"),)
    else:
        on_gpu = torch.device(spec.device).type == "cuda"
        facts = AttentionFacts(
            capability=torch.cuda.get_device_capability(spec.device) if on_gpu else None,
            importable=importable(),
            dtype=spec.dtype,
            kv_dtype=spec.kv_dtype,
            head_dim=config.head_dim,
        )
        choices = attention_choices(facts)
    return first_that_works(choices, shape), shape
