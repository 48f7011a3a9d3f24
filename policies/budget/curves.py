"""How the chance of a right answer rises with the verifier's score: curves of one entry, and of all before it.

An entry's curve is p(x) = (1 - lapse) * sigmoid(slope * (x - threshold)), x the score. The threshold is the
entry's own and is known as weights over NODES; slope and lapse are common to a pool and known as weights over
EXPERTS. Sums over nodes replace vCache's fit: they are exact for few labels and under perfect separation, where
a fit diverges, and averaging over the nodes is its bound (1 - eps) * p(t'(eps)) for every eps at once.

Legend: E experts, N nodes. Source: vCache (arXiv 2502.03771) sections 3 and 4 for curve and bound.
"""

import math
import operator
from collections.abc import Sequence
from typing import NamedTuple

Weights = list[float]
"""One number per node."""

MOST_SCORE = 12.0
"""Scores are logits within this distance of 0."""

_STEP = 0.5
_NEVER = 40.0
NODES: tuple[float, ...] = (*(-6.0 + _STEP * number for number in range(33)), _NEVER)
"""Thresholds that an entry may have; the last one is that of an entry that is wrong for every question."""

_TINY = 1e-12
_OUTLIERS = 0.03
_NEVER_SHARE = 0.002
_OUTLIER_MEAN, _OUTLIER_SPREAD = 1.5, 4.0
_LEAST_SPREAD = 0.3


class Expert(NamedTuple):
    """One guess at what the curves of a pool have in common.

    Attributes:
        slope: logits of chance per logit of score.
        lapse: share of wrong answers however high the score; errors of who labels are in it.
        weight: how much it is believed before any label, 0 to 1.
        factors: exp(slope * threshold) per node.
    """

    slope: float
    lapse: float
    weight: float
    factors: tuple[float, ...]


def _experts() -> tuple[Expert, ...]:
    slopes = ((1.0, 0.3), (2.2, 0.4), (5.0, 0.3))
    lapses = ((0.0005, 0.5), (0.004, 0.35), (0.03, 0.15))
    return tuple(
        Expert(slope, lapse, much * share, tuple(math.exp(slope * node) for node in NODES))
        for slope, much in slopes
        for lapse, share in lapses
    )


EXPERTS = _experts()


def score_of(probability: float) -> float:
    """The score of a verifier's probability: its logit, within MOST_SCORE of 0; anything but a chance is 0's."""
    if not 0.0 < probability < 1.0:
        return MOST_SCORE if probability == 1.0 else -MOST_SCORE
    return max(-MOST_SCORE, min(MOST_SCORE, math.log(probability / (1.0 - probability))))


def chances(expert: Expert, score: float) -> Weights:
    """The chance of a right answer per node, 0 to 1, falling with the threshold."""
    scale = math.exp(-expert.slope * score)
    most = 1.0 - expert.lapse
    return [most / (1.0 + scale * factor) for factor in expert.factors]


def likelihoods(expert: Expert, score: float, right: bool) -> Weights:
    """How likely each node makes a label; above 0, so that no label rules a node out for ever."""
    found = chances(expert, score)
    return [chance + _TINY for chance in found] if right else [1.0 - chance + _TINY for chance in found]


def shipped(expert: Expert) -> Weights:
    """The weights of a fresh install: the verifier is calibrated over all entries, give or take outliers.

    Thresholds are spread just so that the average over entries is sigmoid(x), the verifier's own claim.
    """
    spread = math.sqrt(max(_LEAST_SPREAD**2, 8.0 / math.pi * (1.0 - expert.slope**-2)))
    regular = _normal(0.0, spread)
    outliers = _normal(_OUTLIER_MEAN, _OUTLIER_SPREAD)
    most = 1.0 - _OUTLIERS - _NEVER_SHARE
    inner = [most * one + _OUTLIERS * other for one, other in zip(regular, outliers, strict=True)]
    return [*inner, _NEVER_SHARE]


def _normal(mean: float, spread: float) -> Weights:
    """Weights of the nodes but the last, like a normal density, sum 1."""
    heights = [math.exp(-0.5 * ((node - mean) / spread) ** 2) for node in NODES[:-1]]
    return normalised(heights)


def normalised(weights: Sequence[float]) -> Weights:
    """The weights scaled to sum 1."""
    total = sum(weights)
    return [weight / total for weight in weights]


def product(weights: Sequence[float], values: Sequence[float]) -> Weights:
    """Node by node."""
    return list(map(operator.mul, weights, values))


def mean(weights: Sequence[float], values: Sequence[float]) -> float:
    """The values' average under weights of any sum above 0."""
    return math.fsum(product(weights, values)) / math.fsum(weights)
