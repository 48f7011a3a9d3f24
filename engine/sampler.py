"""Logits to token ids, row by row.

Order: what `engine.logit_edits` changes (grammar, bias, penalties), then temperature, top-k, top-p, min-p and the
draw as `engine.draw` defines them. Log-probabilities come from the raw logits. Randomness is counter-based:
the draw at output position p of sample s is a hash of (seed, s, p), so it depends neither on batch mates nor on
preemption, and a greedy row draws nothing. On a CPU each row is computed alone, in numpy, so its company cannot
matter; on a device `engine.draw_batch` draws for all plain rows at once.
"""

from collections.abc import Sequence as Rows
from dataclasses import dataclass

import numpy as np
import torch

from engine.draw import Row, choose, nearest_ids, uniform
from engine.draw_batch import choose_many
from engine.logit_edits import edited, edits
from engine.sampling import SamplingParams
from engine.sequence import Sequence


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


NOTHING_LEFT = Sampled(-1)
"""In place of a token where a request's own conditions rule out every one."""


@torch.inference_mode()
def sample(
    logits: torch.Tensor, sequences: Rows[Sequence], eos_ids: frozenset[int] = frozenset()
) -> list[Sampled | None]:
    """Choose the next token of each sequence.

    Args:
        logits: floats [B, V], one row per sequence; not changed, computed with as fp32.
        sequences: whose rows they are.
        eos_ids: the model's end tokens, kept back until `min_tokens`.

    Returns:
        One entry per sequence; None where the row holds NaN or no finite maximum, so that nothing can be chosen,
        and `NOTHING_LEFT` where that is so only after what the request changes about it.
    """
    greedy, best = _best(logits)
    drawn = _drawn_together(logits, sequences, best) if logits.is_cuda else {}
    busy = [index for index, one in enumerate(sequences) if _needs_row(one) and index not in drawn]
    rows = dict(zip(busy, _on_host(logits, busy), strict=True)) if busy else {}
    chosen: list[Sampled | None] = []
    for index, sequence in enumerate(sequences):
        if not np.isfinite(best[index]):
            chosen.append(None)
        elif index in rows:
            chosen.append(_from_row(rows[index], sequence, eos_ids))
        else:
            chosen.append(Sampled(drawn.get(index, greedy[index])))
    return chosen


def _drawn_together(logits: torch.Tensor, sequences: Rows[Sequence], best: list[float]) -> dict[int, int]:
    """Draw on the device for the rows that are only drawn from; those it leaves open are left out."""
    plain = [
        index
        for index, one in enumerate(sequences)
        if np.isfinite(best[index])
        and not (one.params.greedy or edits(one) or one.params.top_logprobs is not None)
    ]
    if not plain:
        return {}
    rows = logits if len(plain) == len(logits) else logits[torch.tensor(plain, device=logits.device)]
    draws = [_draw(sequences[index]) for index in plain]
    tokens = choose_many(rows, [sequences[index].params for index in plain], draws)
    return {index: token for index, token in zip(plain, tokens, strict=True) if token is not None}


def _draw(sequence: Sequence) -> float:
    return uniform(sequence.seed, sequence.sample_index, len(sequence.output_ids))


def _best(logits: torch.Tensor) -> tuple[list[int], list[float]]:
    if logits.is_cuda:
        values, ids = logits.max(dim=-1)
        return ids.tolist(), values.tolist()
    rows = logits.float().numpy()
    best = rows.argmax(axis=-1)
    return best.tolist(), np.take_along_axis(rows, best[:, None], axis=-1)[:, 0].tolist()


def _on_host(logits: torch.Tensor, indices: list[int]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    rows = logits if len(indices) == len(logits) else logits[indices]
    found: np.ndarray[tuple[int, int], np.dtype[np.float32]] = rows.float().cpu().numpy()
    return found


def _needs_row(sequence: Sequence) -> bool:
    params = sequence.params
    return not params.greedy or params.top_logprobs is not None or edits(sequence)


def _from_row(raw: Row, sequence: Sequence, eos_ids: frozenset[int]) -> Sampled:
    params = sequence.params
    row = edited(raw, sequence, eos_ids) if edits(sequence) else raw
    token_id = int(row.argmax())
    if not np.isfinite(row[token_id]):
        return NOTHING_LEFT
    if not params.greedy:
        token_id = choose(row, params, _draw(sequence))
    return _report(raw, token_id, params)


def _report(raw: Row, token_id: int, params: SamplingParams) -> Sampled:
    if params.top_logprobs is None:
        return Sampled(token_id)
    best = float(raw.max())
    total = best + float(np.log(np.exp(raw - np.float32(best)).sum(dtype=np.float64)))
    top = (Logprob(int(one), float(raw[one]) - total) for one in nearest_ids(raw, params.top_logprobs))
    return Sampled(token_id, Logprob(token_id, float(raw[token_id]) - total), tuple(top))
