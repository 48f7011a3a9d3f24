"""Rotary position tables as complex numbers, so that a rotation is one multiplication.

Queries and keys keep the two halves of a rotary pair side by side (`paired`), and so does the KV pool; scores do
not change, since both sides of the dot product are reordered alike.
"""

import math

import torch

from engine.loader.contract import ModelConfig, RopeScaling


def rotary_table(config: ModelConfig, factors: torch.Tensor | None) -> torch.Tensor:
    """Build complex64 [context, D / 2].

    Args:
        config: shape and base frequency.
        factors: fp32 [D / 2] that divide the frequencies, as some GGUF files carry; else None.
    """
    pairs = torch.arange(0, config.head_dim, 2, dtype=torch.float32)
    frequencies = 1.0 / config.rope_theta ** (pairs / config.head_dim)
    if factors is not None:
        frequencies = frequencies / factors
    if config.rope_scaling is not None:
        frequencies = _stretch(frequencies, config.rope_scaling)
    angles = torch.outer(torch.arange(config.context, dtype=torch.float32), frequencies)
    return torch.polar(torch.ones_like(angles), angles)


def paired(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Reorder a projection's rows from two halves per head to pairs side by side."""
    rows, width = weight.shape
    return weight.view(heads, 2, rows // heads // 2, width).transpose(1, 2).reshape(rows, width)


def _stretch(frequencies: torch.Tensor, scaling: RopeScaling) -> torch.Tensor:
    turns = scaling.original_context * frequencies / (2 * math.pi)
    span = scaling.high_freq_factor - scaling.low_freq_factor
    smooth = ((turns - scaling.low_freq_factor) / span).clamp(0, 1)
    return frequencies * (smooth + (1 - smooth) / scaling.factor)
