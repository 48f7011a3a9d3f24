"""One embedder for many threads: micro-batched, with a cache of what was embedded last."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from semantic.batching import Batcher
from semantic.embedders.contract import Embedder

_ENTRY_OVERHEAD_BYTES = 200


class VectorCache:
    """The last used vectors by SHA-256 of their text, within a budget; safe from several threads."""

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._size_bytes = 0
        self._lock = threading.Lock()
        self._vectors: OrderedDict[bytes, np.ndarray] = OrderedDict()

    def get(self, key: bytes) -> np.ndarray | None:
        """The vector, which becomes the last used; None when it is unknown."""
        with self._lock:
            if key in self._vectors:
                self._vectors.move_to_end(key)
            return self._vectors.get(key)

    def put(self, key: bytes, vector: np.ndarray) -> None:
        """Keeps a vector, and forgets those used longest ago until the budget is kept."""
        with self._lock:
            if key not in self._vectors:
                self._size_bytes += vector.nbytes + _ENTRY_OVERHEAD_BYTES
            self._vectors[key] = vector
            while self._size_bytes > self._budget_bytes:
                _, old = self._vectors.popitem(last=False)
                self._size_bytes -= old.nbytes + _ENTRY_OVERHEAD_BYTES


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
        self._cache = VectorCache(budget_bytes)
        self._told_hits = told_hits or (lambda _asked, _hits: None)
        self._batcher: Batcher[str, np.ndarray] = Batcher(
            embedder.embed,  # type: ignore[arg-type]  (rows of a matrix are a sequence of vectors)
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
        missing: list[int] = []
        for at, key in enumerate(keys):
            known = self._cache.get(key)
            if known is None:
                missing.append(at)
            else:
                found[at] = known
        self._told_hits(len(texts), len(texts) - len(missing))
        made = self._batcher([texts[at] for at in missing], urgent=urgent, timeout_s=timeout_s)
        for at, vector in zip(missing, made, strict=True):
            found[at] = vector
            if urgent:
                self._cache.put(keys[at], np.array(vector))
        return found

    def close(self) -> None:
        """Ends the model's thread. Idempotent."""
        self._batcher.close()
