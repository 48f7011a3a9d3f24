"""One verifier for many threads: whoever asks at the same time is computed together."""

from collections.abc import Callable, Sequence
from typing import Protocol

from semantic.batching import Batcher

Pair = tuple[str, str]


class Verifier(Protocol):
    """Says how probably two texts have the same answer; one thread at a time."""

    @property
    def fingerprint(self) -> str:
        """Digest of everything that decides a probability."""
        ...

    def probabilities(self, pairs: Sequence[Pair]) -> list[float]:
        """Per pair of stored and asked text the calibrated probability, 0 to 1, that their answers are equal."""
        ...


class SharedVerifier:
    """Verifies for many callers.

    Args:
        verifier: the model.
        told_batch: called with the size of each batch.
    """

    def __init__(self, verifier: Verifier, *, told_batch: Callable[[int], None] | None = None) -> None:
        self.fingerprint = verifier.fingerprint
        self._batcher: Batcher[Pair, float] = Batcher(verifier.probabilities, "verifier", told=told_batch)

    def probabilities(self, pairs: Sequence[Pair], timeout_s: float = 30.0) -> list[float]:
        """Verifies pairs, in order.

        Raises:
            BusyError: too many wait already, or it takes too long.
        """
        return self._batcher(pairs, timeout_s=timeout_s)

    def close(self) -> None:
        """Ends the model's thread. Idempotent."""
        self._batcher.close()
