"""vCache's decision for one entry, written from the paper's formulas (arXiv 2502.03771, sections 3 and 4).

Scores are similarities, 0 to 1. Each entry starts with a wrong label at 0 and a right one at 1, explores until it
has six labels, fits a logistic curve without penalty, and takes the least exploration over a grid of eps. Where
labels are perfectly separated the variance of the threshold comes from a table by number of labels; only its ends
are known to us, so it is filled in between.
"""

import math
import statistics
from bisect import insort

_LEAST_LABELS = 6
_MOST_SLOPE = 200.0
_TABLE = ((6, 0.0354), (48, 0.0153))
_NORMAL = statistics.NormalDist()
_LINEAR = tuple((eps, _NORMAL.inv_cdf(1.0 - eps)) for eps in (number / 49 for number in range(1, 49)))
_LOG = tuple((eps, _NORMAL.inv_cdf(1.0 - eps)) for eps in (10 ** (-6 + 5.7 * number / 49) for number in range(50)))
_ROUNDS = 25
_REFIT_SHARE = 0.05
_CONVERGED = 1e-3


class VCacheEntry:
    """The labels of one entry."""

    def __init__(self, *, log_grid: bool) -> None:
        self._grid = _LOG if log_grid else _LINEAR
        self._labels: list[tuple[float, bool]] = [(0.0, False), (1.0, True)]
        self._fit: tuple[float, float, float] | None = None
        self._new = 0
        self._start = (0.0, 1.0)

    def learn(self, similarity: float, *, right: bool) -> None:
        """Takes in a label; an entry with many is fitted anew when 5 % have come, which spares hours."""
        insort(self._labels, (round(similarity, 3), right))
        self._new += 1
        if self._new > _REFIT_SHARE * len(self._labels):
            self._fit, self._new = None, 0

    def exploration(self, similarity: float, delta: float) -> float:
        """tau, at most 1; may be below 0."""
        if len(self._labels) < _LEAST_LABELS:
            return 1.0
        if self._fit is None:
            self._fit, self._start = _fitted(self._labels, self._start)
        threshold, slope, deviation = self._fit
        best = 0.0
        for eps, quantile in self._grid:
            worse = min(1.0, max(0.0, threshold + quantile * deviation))
            best = max(best, (1.0 - eps) * _sigmoid(slope * (similarity - worse)))
        return 1.0 - delta / max(1e-12, 1.0 - best)


def _fitted(
    labels: list[tuple[float, bool]], start: tuple[float, float]
) -> tuple[tuple[float, float, float], tuple[float, float]]:
    """Threshold, slope and the threshold's standard deviation; then where the next fit begins."""
    wrong = max(score for score, right in labels if not right)
    good = min(score for score, right in labels if right)
    if wrong < good:
        return ((wrong + good) / 2, _MOST_SLOPE, math.sqrt(_separated(len(labels)))), start
    base, slope = start
    for _ in range(_ROUNDS):
        before = slope
        base, slope = _newton(labels, base, slope)
        if abs(slope - before) < _CONVERGED * max(1.0, abs(slope)):
            break
    slope = max(slope, 1e-6)
    inverse = _covariance(labels, base, slope)
    along = (-1.0 / slope, base / slope**2)
    variance = along[0] ** 2 * inverse[0] + 2 * along[0] * along[1] * inverse[1] + along[1] ** 2 * inverse[2]
    return (min(1.0, max(0.0, -base / slope)), slope, math.sqrt(max(0.0, variance))), (base, slope)


def _newton(labels: list[tuple[float, bool]], base: float, slope: float) -> tuple[float, float]:
    first = second = 0.0
    for score, right in labels:
        missed = right - _sigmoid(base + slope * score)
        first += missed
        second += missed * score
    inverse = _covariance(labels, base, slope)
    shift, turn = inverse[0] * first + inverse[1] * second, inverse[1] * first + inverse[2] * second
    length = max(1.0, abs(shift) / 10.0, abs(turn) / 10.0)
    return base + shift / length, min(_MOST_SLOPE, slope + turn / length)


def _covariance(labels: list[tuple[float, bool]], base: float, slope: float) -> tuple[float, float, float]:
    """The inverse of X'WX: (0,0), (0,1), (1,1)."""
    one = cross = square = 1e-9
    for score, _ in labels:
        chance = _sigmoid(base + slope * score)
        weight = chance * (1.0 - chance)
        one += weight
        cross += weight * score
        square += weight * score * score
    determinant = max(1e-15, one * square - cross * cross)
    return square / determinant, -cross / determinant, one / determinant


def _separated(labels: int) -> float:
    (few, high), (many, low) = _TABLE
    part = min(1.0, max(0.0, math.log(labels / few) / math.log(many / few)))
    return high + part * (low - high)


def _sigmoid(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, value))))
