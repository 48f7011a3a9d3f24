"""How fast the engine runs, as last measured: pure arithmetic over step times."""

from dataclasses import dataclass

_WEIGHT_OF_NEWEST = 0.1
_LEAST_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Pace:
    """Moving averages over steps; 0 until measured.

    Attributes:
        prefill_s: seconds per prompt token computed.
        decode_s: seconds per token sampled, with as many sequences beside it as there were.
    """

    prefill_s: float = 0.0
    decode_s: float = 0.0

    def after(self, prefill: int, decode: int, seconds: float) -> "Pace":
        """Return the pace after one more step.

        Of a step that did both, decodes are taken to have cost what they cost without prefill, and prompt tokens
        the rest, but never less than a tenth of an even share.

        Args:
            prefill: prompt tokens computed in the step.
            decode: sequences that decoded in it.
            seconds: how long it took.
        """
        if prefill == 0:
            return Pace(self.prefill_s, _averaged(self.decode_s, seconds, decode))
        least = _LEAST_SHARE * seconds * prefill / (prefill + decode)
        return Pace(
            _averaged(self.prefill_s, max(least, seconds - decode * self.decode_s), prefill), self.decode_s
        )


def _averaged(average: float, seconds: float, tokens: int) -> float:
    if tokens == 0:
        return average
    newest = seconds / tokens
    return newest if average == 0 else average + _WEIGHT_OF_NEWEST * (newest - average)
