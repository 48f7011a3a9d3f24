"""What an embedder promises, and the test at start that it keeps it."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from semantic.errors import ModelError

_UNIT_TOLERANCE = 1e-3
_MOST_ALIKE = 0.995
_PROBES = (
    "How do I reset my password?",
    "What is the capital of Mongolia?",
    "Write a haiku about autumn leaves.",
    "7 * 8 + 3",
    "Explain photosynthesis to a child.",
    "x",
)


class Embedder(Protocol):
    """Turns texts into vectors. Contract tests: tests/semantic/embedders.

    Equal texts give equal vectors, up to the last bits; another fingerprint is another space.
    """

    @property
    def fingerprint(self) -> str:
        """Digest of everything that decides a vector: weights, tokenizer, pooling, length."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        ...

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Embeds texts: fp32 [texts, dimensions], each row of length 1."""
        ...


def check_embedder(embedder: Embedder) -> None:
    """Checks on a few texts that an embedder tells them apart; one that does not makes everything a hit.

    Raises:
        ModelError: a vector is misshaped, not finite, not of length 1, or the same for different texts.
    """
    vectors = embedder.embed([*_PROBES, _PROBES[0]])
    if vectors.shape != (len(_PROBES) + 1, embedder.dimensions) or vectors.dtype != np.float32:
        raise ModelError(f"the embedder gives {vectors.dtype} {vectors.shape}")
    if not are_unit(vectors).all():
        raise ModelError("the embedder gives vectors that are not finite or not of length 1")
    likeness = vectors @ vectors.T
    if likeness[0, -1] < 1 - _UNIT_TOLERANCE:
        raise ModelError("the embedder gives two vectors for one text")
    if np.triu(likeness[:-1, :-1], 1).max() > _MOST_ALIKE:
        raise ModelError("the embedder gives one vector for different texts")


def are_unit(vectors: np.ndarray) -> np.ndarray:
    """Which rows are finite and of length 1: bool [rows]."""
    with np.errstate(invalid="ignore", over="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        return np.abs(lengths - 1) < _UNIT_TOLERANCE  # type: ignore[no-any-return]
