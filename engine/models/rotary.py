"""Rotary position tables as complex numbers, so that a rotation is one multiplication.

Queries and keys keep the two halves of a rotary pair side by side (`paired`), and so does the KV pool; scores do
not change, since both sides of the dot product are reordered alike.
"""

import math

import numpy as np
import torch

from engine.loader.contract import ModelConfig, RopeScaling


def rotary_tables(config: ModelConfig, factors: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    """Build each layer's complex64 [context, D / 2]; layers that turn alike share one.

    Args:
        config: shape, base frequencies and windows.
        factors: fp32 [D / 2] that divide the frequencies, as some GGUF files carry; else None.
    """
    pairs = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    frequencies = 1.0 / config.rope_theta**pairs / config.rope_factor
    if factors is not None:
        frequencies = frequencies / factors
    if config.rope_scaling is not None:
        frequencies = _stretch(frequencies, config.rope_scaling)
    everywhere = _table(frequencies, config.context)
    if config.local_rope_theta is None:
        return (everywhere,) * config.layers
    nearby = _table(1.0 / config.local_rope_theta**pairs, config.context)
    return tuple(everywhere if window is None else nearby for window in config.windows)


def paired_rows(heads: int, head_dim: int) -> np.ndarray:
    """Return the order of rows, int64 [heads * D], that makes pairs side by side of two halves per head."""
    return np.arange(heads * head_dim).reshape(heads, 2, head_dim // 2).transpose(0, 2, 1).ravel()


def _table(frequencies: torch.Tensor, context: int) -> torch.Tensor:
    angles = torch.outer(torch.arange(context, dtype=torch.float32), frequencies)
    return torch.polar(torch.ones_like(angles), angles)


def _stretch(frequencies: torch.Tensor, scaling: RopeScaling) -> torch.Tensor:
    turns = scaling.original_context * frequencies / (2 * math.pi)
    span = scaling.high_freq_factor - scaling.low_freq_factor
    smooth = ((turns - scaling.low_freq_factor) / span).clamp(0, 1)
    return frequencies * (smooth + (1 - smooth) / scaling.factor)
