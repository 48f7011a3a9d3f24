"""Vectors that lie as sentences do: in clusters, on the sphere."""

import numpy as np


def unit(vectors: np.ndarray) -> np.ndarray:
    """The vectors with length 1, fp32."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.ascontiguousarray(vectors / lengths, np.float32)


def clustered(count: int, dimensions: int, seed: int, spread: float = 0.7) -> np.ndarray:
    """Vectors around one centre per hundred of them; fp32 [count, dimensions]."""
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(max(1, count // 100), dimensions)).astype(np.float32)
    vectors = centres[draw.integers(0, len(centres), count)]
    vectors += spread * draw.normal(size=vectors.shape).astype(np.float32)
    return unit(vectors)
