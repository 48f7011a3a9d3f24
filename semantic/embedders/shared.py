"""One embedder for many threads: micro-batched, with a cache of what was embedded last."""

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from semantic.batching import Batcher
from semantic.embedders.contract import Embedder
from semantic.remembered import Remembered

_ENTRY_OVERHEAD_BYTES = 200


class SharedEmbedder:
    """Embeds for many callers with a model that takes one thread at a time.

    Args:
        embedder: the model.
        budget_bytes: of the cache.
        told_batch: called with the size of each batch.
        told_hits: called with the texts asked for and those of them that were cached.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        budget_bytes: int = 64 << 20,
        told_batch: Callable[[int], None] | None = None,
        told_hits: Callable[[int, int], None] | None = None,
    ) -> None:
        self.fingerprint = embedder.fingerprint
        self.dimensions = embedder.dimensions
        self._cache: Remembered[bytes, np.ndarray] = Remembered(budget_bytes, _cost)
        self._told_hits = told_hits or (lambda _asked, _hits: None)
        self._batcher: Batcher[str, np.ndarray] = Batcher(
            lambda texts: list(embedder.embed(texts)),
            "embedder",
            told=told_batch,
        )

    def embed(self, texts: Sequence[str], *, urgent: bool = True, timeout_s: float = 30.0) -> np.ndarray:
        """Embeds texts: fp32 [texts, dimensions].

        Args:
            texts: whatever the model's tokenizer takes.
            urgent: whether somebody waits; else it is done between what is urgent, and not cached.
            timeout_s: longest wait.

        Raises:
            BusyError: too many wait already, or it takes too long.
        """
        found = np.empty((len(texts), self.dimensions), np.float32)
        keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        missing: dict[bytes, list[int]] = {}
        for at, key in enumerate(keys):
            known = self._cache.get(key)
            if known is None:
                missing.setdefault(key, []).append(at)
            else:
                found[at] = known
        self._told_hits(len(texts), len(texts) - sum(map(len, missing.values())))
        wanted = [texts[places[0]] for places in missing.values()]
        made = self._batcher(wanted, urgent=urgent, timeout_s=timeout_s)
        for (key, places), vector in zip(missing.items(), made, strict=True):
            found[places] = vector
            if urgent:
                self._cache.put(key, np.array(vector))
        return found

    def forget(self) -> None:
        """Forgets the vectors of texts asked for."""
        self._cache.clear()

    def close(self) -> None:
        """Ends the model's thread. Idempotent."""
        self._batcher.close()


def _cost(vector: np.ndarray) -> int:
    return int(vector.nbytes) + _ENTRY_OVERHEAD_BYTES
