"""What `engine.draw` chooses, for many rows at once in torch: for logits that lie on a device.

The same definition, of which the best `_NEAR` tokens are looked at; a row in which they do not settle the matter
is left to `engine.draw`. B: rows, V: vocabulary, K: tokens looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from engine.sampling import SamplingParams

_NEAR = 1024
_TOTAL_ERROR = 4e-6
"""Bound on the relative error of a sum of fp32 exponentials."""


@dataclass(frozen=True, slots=True)
class _Wishes:
    """A column of fp64 [B, 1] per parameter; `top_k` is V where nothing is cut."""

    temperature: torch.Tensor
    top_p: torch.Tensor
    min_p: torch.Tensor
    top_k: torch.Tensor
    draw: torch.Tensor


@dataclass(frozen=True, slots=True)
class _Nearest:
    """Weights fp64 [B, K] in falling order, their running sums, and bounds [B, 1] on the weight of all others."""

    weights: torch.Tensor
    running: torch.Tensor
    rest_low: torch.Tensor
    rest_high: torch.Tensor


@torch.inference_mode()
def choose_many(
    logits: torch.Tensor, params: Sequence[SamplingParams], draws: Sequence[float]
) -> list[int | None]:
    """Choose a token for each row.

    Args:
        logits: fp32 [B, V] on any device; each row's maximum is finite.
        params: of each row, none greedy.
        draws: [0, 1), of each row.

    Returns:
        Token ids; None where `engine.draw.choose` must look at the whole row.
    """
    vocab = logits.shape[-1]
    found: list[int | None] = [None] * len(params)
    cut = [one.top_p < 1 or one.min_p > 0 or 0 < one.top_k < vocab for one in params]
    for wanted, choose in ((True, _near), (False, _uncut)):
        rows = [row for row, is_cut in enumerate(cut) if is_cut == wanted]
        if not rows:
            continue
        wishes = _columns([params[row] for row in rows], [draws[row] for row in rows], logits)
        part = logits if len(rows) == len(params) else logits[torch.tensor(rows, device=logits.device)]
        for row, token in zip(rows, choose(part.float(), wishes).tolist(), strict=True):
            found[row] = token if token >= 0 else None
    return found


def _columns(params: Sequence[SamplingParams], draws: Sequence[float], logits: torch.Tensor) -> _Wishes:
    vocab = logits.shape[-1]
    table = [
        (one.temperature, one.top_p, one.min_p, min(one.top_k or vocab, vocab), draw)
        for one, draw in zip(params, draws, strict=True)
    ]
    columns = torch.tensor(table, dtype=torch.float64).to(logits.device)
    return _Wishes(*(columns[:, index : index + 1].contiguous() for index in range(5)))


def _uncut(logits: torch.Tensor, wishes: _Wishes) -> torch.Tensor:
    """Return ids [B]: the draw over the whole vocabulary, in order of id."""
    weights = ((logits - logits.amax(-1, keepdim=True)).double() / wishes.temperature).exp()
    running = weights.cumsum(-1)
    total = running[:, -1:].contiguous()
    index = torch.searchsorted(running, wishes.draw * total, right=True)
    return torch.minimum(index, torch.searchsorted(running, total))[:, 0]


def _near(logits: torch.Tensor, wishes: _Wishes) -> torch.Tensor:
    """Return ids [B], -1 where the near tokens do not settle the matter."""
    vocab, count = logits.shape[-1], min(_NEAR, logits.shape[-1])
    values, ids = logits.topk(count, dim=-1, sorted=False)
    ids, order = ids.sort(dim=-1)
    values, order = values.gather(-1, order).sort(dim=-1, descending=True, stable=True)
    ids = ids.gather(-1, order)
    place = torch.arange(count, device=logits.device)
    weights = ((values.double() - values[:, :1].double()) / wishes.temperature).exp()
    kept = torch.where(place < wishes.top_k, weights, 0.0)
    running = kept.cumsum(-1)
    near = running[:, -1:]
    total = (
        ((logits - values[:, :1]) / wishes.temperature.float()).exp().sum(-1, keepdim=True, dtype=torch.float64)
    )
    error = _TOTAL_ERROR * total
    rest = (total - weights.sum(-1, keepdim=True)).clamp(min=0)
    cut_off = (wishes.top_k - count).clamp(min=0)
    low = torch.where(wishes.top_k < vocab, 0.0, (rest - error).clamp(min=0))
    high = torch.minimum(rest + error, cut_off * weights[:, -1:])
    nearest = _Nearest(kept, running, torch.minimum(low, high), high)
    first, second = (_index(nearest, near + bound, wishes) for bound in (nearest.rest_low, high))
    last_kept = (torch.minimum(wishes.top_k, wishes.top_k.new_tensor(count)) - 1).long()
    tied = (values.gather(-1, last_kept) == values[:, -1:]) & (wishes.top_k < vocab) & (count < vocab)
    index = first.clamp(0, count - 1)
    settled = (first == second) & (first >= 0) & (first < count) & ~tied
    settled &= (values.gather(-1, index) > values[:, -1:]) | (count == vocab)
    return torch.where(settled, ids.gather(-1, index), -1)[:, 0]


def _index(nearest: _Nearest, kept: torch.Tensor, wishes: _Wishes) -> torch.Tensor:
    """Return the place [B, 1] of the chosen token if all others weigh as much as `kept` says; -1 when unknown."""
    running, near = nearest.running, nearest.running[:, -1:]
    beyond = kept > near
    limit = wishes.top_p * kept
    unknown = (wishes.top_p < 1) & (limit > near)
    last = running.shape[-1] - 1
    in_nucleus = running.gather(-1, torch.searchsorted(running, limit).clamp(max=last))
    kept = torch.where(wishes.top_p < 1, in_nucleus, kept)
    above = ((nearest.weights >= wishes.min_p) & (nearest.weights > 0)).sum(-1, keepdim=True)
    unknown |= (wishes.min_p > 0) & (above == last + 1) & beyond & (kept > near)
    at_most = running.gather(-1, (above - 1).clamp(min=0))
    kept = torch.where(wishes.min_p > 0, torch.minimum(kept, at_most), kept)
    index = torch.searchsorted(running, wishes.draw * kept, right=True)
    return torch.where(unknown, -1, index)
