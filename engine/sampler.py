"""Logits to token ids, row by row.

Order: bias, presence and frequency penalties (over the answer's own tokens, as OpenAI means them), temperature,
top-k, top-p, min-p, draw. Log-probabilities are reported from the raw logits. Randomness is counter-based: the
draw at output position p of sample s is a hash of (seed, s, p), so it depends neither on batch mates nor on
preemption, and a greedy row draws nothing.
"""

import struct
from collections import Counter
from collections.abc import Sequence as Rows
from dataclasses import dataclass
from hashlib import blake2b

import torch

from engine.sampling import SamplingParams
from engine.sequence import Sequence

_DRAW_BITS = 53


@dataclass(frozen=True, slots=True)
class Logprob:
    """A token and the natural log of its probability."""

    token_id: int
    logprob: float


@dataclass(frozen=True, slots=True)
class Sampled:
    """The chosen token, with log-probabilities where the request wants them.

    Attributes:
        chosen: None unless asked for.
        top: the most likely tokens, best first; empty unless asked for.
    """

    token_id: int
    chosen: Logprob | None = None
    top: tuple[Logprob, ...] = ()


@torch.inference_mode()
def sample(logits: torch.Tensor, sequences: Rows[Sequence]) -> list[Sampled | None]:
    """Choose the next token of each sequence.

    Args:
        logits: fp32 [B, V], one row per sequence; not changed.
        sequences: whose rows they are.

    Returns:
        One entry per sequence; None where the row holds NaN or no finite maximum, so that nothing can be chosen.
    """
    best, greedy = logits.max(dim=-1)
    healthy = torch.isfinite(best).tolist()
    greedy_ids = greedy.tolist()
    chosen: list[Sampled | None] = []
    for row, sequence in enumerate(sequences):
        if not healthy[row]:
            chosen.append(None)
            continue
        params = sequence.params
        token_id = greedy_ids[row]
        if params.edits_logits or params.temperature > 0:
            token_id = _choose(logits[row], sequence)
        chosen.append(_report(logits[row], token_id, params))
    return chosen


def uniform(seed: int, sample_index: int, position: int) -> float:
    """Return the draw in [0, 1) that belongs to this seed, sample and output position."""
    key = struct.pack("<QQQ", seed & 0xFFFFFFFFFFFFFFFF, sample_index, position)
    bits = int.from_bytes(blake2b(key, digest_size=8).digest(), "little")
    return float((bits >> (64 - _DRAW_BITS)) * 2.0**-_DRAW_BITS)


def _choose(logits: torch.Tensor, sequence: Sequence) -> int:
    params = sequence.params
    if params.edits_logits:
        logits = _edited(logits, params, sequence.output_ids)
    if params.temperature == 0:
        return int(logits.argmax())
    draw = uniform(sequence.seed, sequence.sample_index, len(sequence.output_ids))
    scaled = (logits - logits.max()).double() / params.temperature
    if params.top_k == 0 and params.top_p == 1 and params.min_p == 0:
        return _pick(torch.softmax(scaled, dim=-1), draw)
    keep = min(params.top_k or len(scaled), len(scaled))
    values, ids = scaled.topk(keep) if params.top_k else scaled.sort(descending=True, stable=True)
    probabilities = torch.softmax(values, dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    kept = (before < params.top_p) & (probabilities >= params.min_p * probabilities[0])
    kept[0] = True
    return int(ids[_pick(probabilities * kept, draw)])


def _pick(weights: torch.Tensor, draw: float) -> int:
    """Return the index at which the running sum first exceeds `draw` of the total."""
    running = weights.cumsum(dim=-1)
    index = int(torch.searchsorted(running, draw * running[-1], right=True))
    return min(index, int(weights.nonzero()[-1]))


def _edited(logits: torch.Tensor, params: SamplingParams, output_ids: Rows[int]) -> torch.Tensor:
    edited = logits.clone()
    if params.logit_bias:
        biased, addends = zip(*params.logit_bias, strict=True)
        edited[torch.tensor(biased)] += torch.tensor(addends)
    if output_ids and (params.presence_penalty or params.frequency_penalty):
        counts = Counter(output_ids)
        ids, times = torch.tensor(list(counts)), torch.tensor(list(counts.values()), dtype=torch.float32)
        edited[ids] -= params.presence_penalty + params.frequency_penalty * times
    return edited


def _report(logits: torch.Tensor, token_id: int, params: SamplingParams) -> Sampled:
    if params.top_logprobs is None:
        return Sampled(token_id)
    logprobs = torch.log_softmax(logits, dim=-1)
    values, ids = logprobs.topk(params.top_logprobs)
    top = tuple(map(Logprob, ids.tolist(), values.tolist()))
    return Sampled(token_id, Logprob(token_id, float(logprobs[token_id])), top)
