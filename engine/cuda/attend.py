"""From a choice of attention to attention that has shown on this very device that it is right.

Kernels of other houses change, and compilers have off days: before a backend serves, it attends for a few
sequences of the model's own shape, and its numbers are held against those of gathering.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate
from typing import Any

import torch

from engine.attention.contract import Segment
from engine.attention.cuda_batch import BatchAttention, ChunkPlanner, SegmentAttention, batch_of
from engine.attention.cuda_choice import AttentionChoice
from engine.attention.gathered import GatheredAttention
from engine.attention.paged import KvShape, PagedKV
from engine.errors import EngineError
from engine.kv.contract import KvGroup

_log = logging.getLogger(__name__)

PACKAGES = ("triton", "flashinfer", "flash_attn_interface")

CHUNKS: Mapping[str, str] = {
    "triton": "engine.attention.triton_attention:TritonChunks",
    "flashinfer": "engine.attention.cuda_flashinfer:FlashInferChunks",
    "varlen": "engine.attention.cuda_varlen:VarlenChunks",
}
"""Who attends for prompt chunks, by name, to where its class is."""

_TRITON = "engine.attention.triton_attention:TritonAttention"
_TOLERANCE = 0.03
"""Of the largest result: half precision in another order of sums, but no wrong key, mask or scale."""


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """What attention is made for."""

    groups: tuple[KvGroup, ...]
    kv: KvShape
    heads: int
    score_scale: float
    dtype: torch.dtype


def importable() -> frozenset[str]:
    """Return which of the optional packages are installed, without importing them."""
    return frozenset(name for name in PACKAGES if find_spec(name) is not None)


def make_attention(choice: AttentionChoice, kv: PagedKV, shape: AttentionShape) -> BatchAttention:
    """Build the attention of a choice over a pool; imports what it needs."""
    if choice.attention == "sdpa":
        return SegmentAttention(GatheredAttention(kv, shape.heads, shape.score_scale))
    chunks: ChunkPlanner = _class(CHUNKS[choice.chunks])(kv, shape.heads, shape.score_scale)
    made: BatchAttention = _class(_TRITON)(kv, shape.heads, shape.score_scale, chunks)
    return made


def _class(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def first_that_works(choices: Sequence[AttentionChoice], shape: AttentionShape) -> AttentionChoice:
    """Try choices in turn, and return the first whose numbers are right; log why the others were passed over.

    Raises:
        EngineError: none works.
    """
    for choice in choices:
        try:
            error = _error_of(choice, shape)
        except Exception:  # noqa: BLE001  (whatever a foreign kernel throws: logged, and the next choice is tried)
            _log.warning(
                "attention by %s and %s does not work here", choice.attention, choice.chunks, exc_info=True
            )
            continue
        if error <= _TOLERANCE:
            _log.info("attention by %s and %s: %s", choice.attention, choice.chunks, choice.reason)
            return choice
        _log.warning("attention by %s and %s is off by %.3g", choice.attention, choice.chunks, error)
    raise EngineError("no attention works on this device")


@torch.inference_mode()
def _error_of(choice: AttentionChoice, shape: AttentionShape) -> float:
    """Return the largest difference from gathering, as a share of the largest result."""
    gathering = AttentionChoice("sdpa", "sdpa", "the yardstick")
    reference, tried = (_answers(one, shape) for one in (gathering, choice))
    return float((tried - reference).abs().max() / reference.abs().max())


def _answers(choice: AttentionChoice, shape: AttentionShape) -> torch.Tensor:
    """Compute three sequences in three steps: chunks with and without a past, single tokens beside chunks."""
    size = shape.kv.block_size
    tables = ((0,), (1, 2), (3, 4, 5, 6, 7, 8))
    steps = (
        ((1, 0, size), (2, 0, 2 * size + 2)),
        ((0, 0, 1), (2, 2 * size + 2, 5 * size + 2)),
        ((1, size, size + 1), (2, 5 * size + 2, 5 * size + 3)),
    )
    kv = PagedKV(shape.groups, [9] * len(shape.groups), shape.kv)
    for part in (part for pool in kv.pools for part in pool.parts):
        part.view(torch.uint8).zero_()
    attention = make_attention(choice, kv, shape)
    generator = torch.Generator().manual_seed(0)
    found = []
    for step in steps:
        ordered = sorted(step, key=lambda piece: piece[2] - piece[1] > 1)
        firsts = [0, *accumulate(end - start for _, start, end in ordered)]
        segments = [
            Segment(row, start, end - start, start, [tables[sequence]] * len(shape.groups))
            for row, (sequence, start, end) in zip(firsts, ordered, strict=False)
        ]
        size_of_rows = (firsts[-1], shape.heads + 2 * shape.kv.kv_heads, shape.kv.head_dim)
        rows = torch.randn(size_of_rows, generator=generator).to(shape.kv.device, shape.dtype)
        attend = attention.plan(batch_of(segments, len(kv.pools), size, shape.kv.device))
        found += [attend(group.layers[0], rows).float().clone() for group in shape.groups]
    return torch.cat(found)
