"""When moving keys and values beats computing them again: pure decisions over measured rates."""

from dataclasses import dataclass

WEIGHT_OF_NEWEST = 0.2


@dataclass(frozen=True, slots=True)
class Rates:
    """What moving and computing cost, as last measured.

    Attributes:
        bytes_per_s: between host and device, either way; 0 until measured, which means: do not move.
        recompute_s: seconds of prefill per token.
    """

    bytes_per_s: float = 0.0
    recompute_s: float = 0.0

    def with_transfer(self, num_bytes: int, seconds: float) -> "Rates":
        """Return the rates after one more transfer was timed (moving average)."""
        return Rates(_averaged(self.bytes_per_s, num_bytes, seconds), self.recompute_s)

    def with_prefill(self, tokens: int, seconds: float) -> "Rates":
        """Return the rates after one more prefill was timed (moving average)."""
        return Rates(self.bytes_per_s, _averaged(self.recompute_s, seconds, tokens))


def _averaged(average: float, amount: float, per: float) -> float:
    if amount <= 0 or per <= 0:
        return average
    newest = amount / per
    return newest if average == 0 else average + WEIGHT_OF_NEWEST * (newest - average)


def worth_restoring(num_bytes: int, tokens: int, rates: Rates) -> bool:
    """Whether bringing bytes back takes less time than computing the tokens they hold."""
    return rates.bytes_per_s > 0 and num_bytes / rates.bytes_per_s < tokens * rates.recompute_s


def worth_swapping(num_bytes: int, tokens: int, rates: Rates) -> bool:
    """Whether moving bytes out and back takes less time than computing the tokens they hold."""
    return worth_restoring(2 * num_bytes, tokens, rates)
