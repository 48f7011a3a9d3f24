"""When moving keys and values beats computing them again: pure decisions over measured rates."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rates:
    """What moving and computing cost, as last measured.

    Attributes:
        bytes_per_s: between host and device, either way; 0 until measured, which means: do not move.
        recompute_s: seconds of prefill per token.
    """

    bytes_per_s: float = 0.0
    recompute_s: float = 0.0


def worth_restoring(num_bytes: int, tokens: int, rates: Rates) -> bool:
    """Whether bringing bytes back takes less time than computing the tokens they hold."""
    return rates.bytes_per_s > 0 and num_bytes / rates.bytes_per_s < tokens * rates.recompute_s


def worth_swapping(num_bytes: int, tokens: int, rates: Rates) -> bool:
    """Whether moving bytes out and back takes less time than computing the tokens they hold."""
    return worth_restoring(2 * num_bytes, tokens, rates)
