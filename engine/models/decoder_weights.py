"""What a decoder of any family in the table is made of, before a kernel packs it.

Legend: C hidden size, H query heads, K KV heads, D head size, F feed-forward size, V vocabulary.

Every optional part is None where a family has none. Norm gains are as they multiply (a family that stores gain - 1
has the one added by its reader). Rows of queries and keys have their rotary pairs side by side
(`engine.models.rotary.paired_rows`), biases and per-head norms likewise.
"""

from dataclasses import dataclass

import torch

from engine.loader.matrix import Matrix


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer.

    Attributes:
        attention_norm: fp32 [C].
        query, key, value: [H*D, C], [K*D, C], [K*D, C].
        query_bias, key_bias, value_bias: fp32, or None.
        query_norm, key_norm: fp32 [D], RMS norm of each head before the rotation, or None.
        output: [C, H*D].
        post_attention_norm: fp32 [C], applied to the attention's output before it is added, or None.
        feed_norm: fp32 [C].
        gate, up: [F, C].
        down: [C, F].
        post_feed_norm: fp32 [C], applied to the feed-forward's output before it is added, or None.
    """

    attention_norm: torch.Tensor
    query: Matrix
    key: Matrix
    value: Matrix
    output: Matrix
    feed_norm: torch.Tensor
    gate: Matrix
    up: Matrix
    down: Matrix
    query_bias: torch.Tensor | None = None
    key_bias: torch.Tensor | None = None
    value_bias: torch.Tensor | None = None
    query_norm: torch.Tensor | None = None
    key_norm: torch.Tensor | None = None
    post_attention_norm: torch.Tensor | None = None
    post_feed_norm: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    """A whole decoder.

    Attributes:
        embedding: [V, C]; rows are looked up, then multiplied by `ModelConfig.embedding_scale`.
        head: [V, C]; the embedding itself where it is tied.
        norm: fp32 [C].
        rotary: for each layer the complex64 [context, D / 2] table it turns queries and keys by; layers share
            tables where they are equal.
    """

    embedding: Matrix
    layers: tuple[LayerWeights, ...]
    norm: torch.Tensor
    head: Matrix
    rotary: tuple[torch.Tensor, ...]
