"""Confidence intervals of shares."""

import math
from typing import NamedTuple

TWO_SIDED_95 = 1.959964
ONE_SIDED_95 = 1.644854


class Interval(NamedTuple):
    """Bounds of a share, 0 to 1."""

    low: float
    high: float


def wilson(share: float, trials: float, z: float = TWO_SIDED_95) -> Interval:
    """The score interval of a share seen in so many trials; everything is possible after none.

    Args:
        share: what was seen, 0 to 1.
        trials: how many, at least 0; an effective number when trials carry weights.
        z: the normal quantile of the confidence wanted.

    Source: Wilson 1927, Journal of the American Statistical Association 22.
    """
    if trials <= 0:
        return Interval(0.0, 1.0)
    scale = 1.0 + z * z / trials
    middle = (share + z * z / (2.0 * trials)) / scale
    reach = z / scale * math.sqrt(max(0.0, share * (1.0 - share) / trials + (z / (2.0 * trials)) ** 2))
    low = 0.0 if share <= 0 else max(0.0, middle - reach)
    high = 1.0 if share >= 1 else min(1.0, middle + reach)
    return Interval(low, high)


def trials_for(share: float, z: float = TWO_SIDED_95) -> float:
    """How many trials without a single case it takes until the interval ends below a share.

    Args:
        share: above 0.
        z: as for `wilson`.
    """
    return 0.0 if share >= 1 else z * z * (1.0 / share - 1.0)
