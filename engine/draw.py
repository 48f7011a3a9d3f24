"""One token out of one row of logits: temperature, top-k, top-p, min-p, then a draw.

The definition: let w = exp((x - max) / temperature) in fp64, tokens in falling order of logit, equal ones by id.
Keep the first `top_k`; of those the shortest run whose weight reaches `top_p` of theirs; of those the ones with
w >= `min_p`, as the best has w = 1. The token is the first one at which the running weight exceeds the draw times
the weight kept.

Sorting the vocabulary to find it costs milliseconds, so only the tokens near the best one are sorted. What lies
below is known to weigh between two bounds, and an answer counts only if both bounds give the same token; otherwise
everything is sorted. So the result is the definition's, always.

Without top-k, top-p and min-p nothing is cut, and the order is free: it is by id then, in fp32, unsorted.
"""

import struct
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from engine.sampling import SamplingParams

Row = npt.NDArray[np.float32]

_DRAW_BITS = 53
_FAR_NATS = 24.0
_FEW = 4096
_BLOCK = 256
_NEARER_NATS = (3.0, 6.0, 9.0, 12.0, 16.0)
_TOTAL_ERROR = 4e-6
"""Bound on the relative error of a sum of fp32 exponentials, for exponents down to -`_FAR_NATS`."""


@dataclass(frozen=True, slots=True)
class _Nearest:
    """The best tokens, sorted, and bounds on the weight of all others together."""

    ids: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float64]
    rest_low: float = 0.0
    rest_high: float = 0.0


def uniform(seed: int, sample_index: int, position: int) -> float:
    """Return the draw in [0, 1) that belongs to this seed, sample and output position."""
    key = struct.pack("<QQQ", seed & 0xFFFFFFFFFFFFFFFF, sample_index, position)
    bits = int.from_bytes(blake2b(key, digest_size=8).digest(), "little")
    return float((bits >> (64 - _DRAW_BITS)) * 2.0**-_DRAW_BITS)


def choose(row: Row, params: SamplingParams, draw: float) -> int:
    """Choose a token as this module defines it.

    Args:
        row: fp32 [V]; its maximum is finite, anything may be -inf.
        params: not greedy.
        draw: [0, 1).
    """
    best = float(row.max())
    if params.top_p == 1 and params.min_p == 0 and not 0 < params.top_k < len(row):
        return _uncut(_rough(row, best, params.temperature), draw)
    if 0 < params.top_k < len(row):
        ids = nearest_ids(row, params.top_k)
        token = _settled(_Nearest(ids, _weights(row, ids, best, params.temperature)), params, draw)
    else:
        token = _from_few(row, best, params, draw)
    return _settle_all(row, best, params, draw) if token is None else token


def nearest_ids(row: Row, count: int) -> npt.NDArray[np.int64]:
    """Return the ids of the `count` best tokens, best first, equal ones by id."""
    count = min(count, len(row))
    floor = np.partition(row, -count)[-count] if count else np.inf
    ids = np.flatnonzero(row >= floor)
    return _by_logit(row, ids)[:count]


def _uncut(weights: Row, draw: float) -> int:
    """Return the first id at which the running weight exceeds the draw's share, by way of sums over blocks."""
    padded = np.zeros(-(-len(weights) // _BLOCK) * _BLOCK, np.float32)
    padded[: len(weights)] = weights
    blocks = padded.reshape(-1, _BLOCK)
    running = blocks.sum(axis=-1).cumsum(dtype=np.float64)
    target = draw * float(running[-1])
    block = int(running.searchsorted(target, side="right"))
    left = target - (float(running[block - 1]) if block else 0.0)
    inside = blocks[block].cumsum(dtype=np.float64)
    last = int(np.flatnonzero(blocks[block])[-1])
    return block * _BLOCK + min(last, int(inside.searchsorted(left, side="right")))


def _rough(row: Row, best: float, temperature: float) -> Row:
    weights: Row = np.exp((row - np.float32(best)) * np.float32(1 / temperature))
    return weights


def _from_few(row: Row, best: float, params: SamplingParams, draw: float) -> int | None:
    ids = np.flatnonzero(row >= best - _FAR_NATS * params.temperature)
    if len(ids) <= _FEW:
        rest = (len(row) - len(ids)) * float(np.exp(-_FAR_NATS))
        return _settled(_Nearest(*_sorted(row, ids, best, params.temperature), rest_high=rest), params, draw)
    rough = _rough(row, best, params.temperature)
    total = float(rough.sum(dtype=np.float64))
    needed = total * params.top_p
    error = _TOTAL_ERROR * total
    for nats in _NEARER_NATS:
        floor = float(np.exp(-nats))
        ids = np.flatnonzero(rough >= floor)
        if floor >= params.min_p and float(rough[ids].sum(dtype=np.float64)) < needed + error:
            continue
        ids, weights = _sorted(row, ids, best, params.temperature)
        rest = total - float(weights.sum())
        token = _settled(_Nearest(ids, weights, max(0.0, rest - error), max(0.0, rest) + error), params, draw)
        if token is not None:
            return token
    return None


def _settle_all(row: Row, best: float, params: SamplingParams, draw: float) -> int:
    nearest = _Nearest(*_sorted(row, np.arange(len(row)), best, params.temperature))
    token = _settled(nearest, params, draw)
    return int(nearest.ids[0]) if token is None else token


def _sorted(
    row: Row, ids: npt.NDArray[np.int64], best: float, temperature: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    ids = _by_logit(row, ids)
    return ids, _weights(row, ids, best, temperature)


def _weights(row: Row, ids: npt.NDArray[np.int64], best: float, temperature: float) -> npt.NDArray[np.float64]:
    weights: npt.NDArray[np.float64] = np.exp((row[ids].astype(np.float64) - best) / temperature)
    return weights


def _by_logit(row: Row, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Sort by falling logit, then rising id: as one integer each, which numpy sorts fastest."""
    bits = (row[ids] + np.float32(0)).view(np.uint32)
    falling = np.where(bits >> 31, bits, ~bits & 0x7FFFFFFF)
    keys = (falling.astype(np.uint64) << np.uint64(32)) | ids.astype(np.uint64)
    keys.sort()
    return (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)


def _settled(nearest: _Nearest, params: SamplingParams, draw: float) -> int | None:
    """Return the chosen token; None when it depends on what the rest weighs."""
    running = nearest.weights.cumsum()
    low = _index(nearest, running, nearest.rest_low, params, draw)
    if low is None or nearest.rest_low == nearest.rest_high:
        high = low
    else:
        high = _index(nearest, running, nearest.rest_high, params, draw)
    return int(nearest.ids[low]) if low is not None and low == high else None


def _index(
    nearest: _Nearest, running: npt.NDArray[np.float64], rest: float, params: SamplingParams, draw: float
) -> int | None:
    near = float(running[-1])
    kept = near + rest
    if params.top_p < 1:
        limit = params.top_p * kept
        if limit > near:
            return None
        kept = float(running[min(len(running) - 1, int(running.searchsorted(limit)))])
    if params.min_p > 0:
        above = int((nearest.weights >= params.min_p).sum())
        if above == len(running) and rest > 0 and kept > near:
            return None
        kept = min(kept, float(running[max(0, above - 1)]))
    index = int(running.searchsorted(draw * kept, side="right"))
    return index if index < len(running) else None
