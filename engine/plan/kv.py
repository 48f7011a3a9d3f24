"""Bytes of keys and values, exactly as `engine.attention.paged` lays them out."""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.plan.shape import Shape

_SCALE_BYTES = 4


@dataclass(frozen=True, slots=True)
class KvType:
    """How a number of the cache is stored.

    Attributes:
        number_bytes: of one number.
        scaled: whether each token's head has an fp32 scale in keys and one in values.
    """

    number_bytes: int
    scaled: bool = False

    def row_bytes(self, numbers: int) -> int:
        """Bytes of so many numbers that share a scale."""
        return numbers * self.number_bytes + (_SCALE_BYTES if self.scaled else 0)


KV_TYPES: Mapping[str, KvType] = {
    "fp32": KvType(4),
    "fp16": KvType(2),
    "bf16": KvType(2),
    "int8": KvType(1, scaled=True),
    "fp8": KvType(1, scaled=True),
}
"""By the names that the engine's `--kv-dtype` takes."""


def layer_bytes(shape: Shape, kind: str) -> int:
    """Bytes a token takes in one layer that keeps it."""
    kv_type = KV_TYPES[kind]
    if shape.latent is not None:
        return kv_type.row_bytes(shape.latent.kv_rank) + kv_type.row_bytes(shape.latent.rope_dim)
    return 2 * shape.kv_heads * kv_type.row_bytes(shape.head_dim)


def token_bytes(shape: Shape, kind: str) -> int:
    """Bytes a token takes while every layer still sees it."""
    return len(shape.own_kv) * layer_bytes(shape, kind)


def sequence_bytes(shape: Shape, kind: str, tokens: int, block_size: int = 1) -> int:
    """Bytes that a sequence of so many tokens holds; what has left a layer's window is given back.

    Args:
        shape: of the model.
        kind: a name in KV_TYPES.
        tokens: prompt and answer.
        block_size: tokens in a block; only whole blocks are held, and of a window those that it touches.
    """
    held = sum(_held_tokens(tokens, window, block_size) for window in shape.own_kv)
    return held * layer_bytes(shape, kind)


def _held_tokens(tokens: int, window: int | None, block_size: int) -> int:
    blocks = -(-tokens // block_size)
    if window is not None and tokens > window:
        first_seen = (tokens - window) // block_size
        blocks -= first_seen
    return blocks * block_size
