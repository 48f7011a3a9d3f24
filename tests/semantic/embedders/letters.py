"""An embedder that costs nothing."""

from collections.abc import Sequence

import numpy as np


class Letters:
    """Counts letters: an embedder that costs nothing."""

    fingerprint = "letters"
    dimensions = 256

    def __init__(self) -> None:
        self.batches: list[int] = []

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Embeds texts."""
        self.batches.append(len(texts))
        found = np.full((len(texts), 256), 0.01, np.float32)
        for row, text in enumerate(texts):
            for letter in text.encode():
                found[row, letter] += 1
        return found / np.linalg.norm(found, axis=1, keepdims=True)
