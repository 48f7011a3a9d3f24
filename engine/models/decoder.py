"""The decoder that every family in the table is: RMS norms, rotary attention, any number of KV heads, gated units.

Legend: R rows of the step, C hidden size, H query heads, K KV heads, D head size, F feed-forward size.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Self

import torch
from torch.nn import functional

from engine.kernels import LINEARS, Embedding, Linear, LinearMaker
from engine.loader.contract import ModelConfig
from engine.loader.matrix import Matrix
from engine.models.contract import StepInput
from engine.models.decoder_weights import DecoderWeights, LayerWeights

_ACTIVATIONS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": functional.silu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
}


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """Weights of one layer, projections fused: queries, keys and values; gate and up.

    Attributes:
        head_gains: fp32 [H + K, D], of the norms of query and key heads, or None.
    """

    attention_norm: torch.Tensor
    qkv: Linear
    head_gains: torch.Tensor | None
    output: Linear
    post_attention_norm: torch.Tensor | None
    feed_norm: torch.Tensor
    gate_up: Linear
    down: Linear
    post_feed_norm: torch.Tensor | None
    rotary: torch.Tensor


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder in torch; see `engine.models.contract.Model`."""

    config: ModelConfig
    embedding: Embedding
    layers: tuple[DecoderLayer, ...]
    norm: torch.Tensor
    head: Linear

    @classmethod
    def build(cls, config: ModelConfig, weights: DecoderWeights, linear: str) -> Self:
        """Pack the weights as the format named `linear` wants them, several layers at a time."""
        pack = partial(_layer, config, LINEARS[linear])
        # The head is by far the largest matrix; while it is dense, nothing else should be.
        head = LINEARS[linear](weights.head.dense(), None)
        # Reading and packing leave the interpreter alone.
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            layers = tuple(pool.map(pack, weights.layers, weights.rotary))
        return cls(
            config=config,
            embedding=Embedding(weights.embedding),
            layers=layers,
            norm=weights.norm,
            head=head,
        )

    def forward(self, step: StepInput) -> torch.Tensor:
        """Run the step; logits only for the rows that want them."""
        config = self.config
        stream = self.embedding(step.ids)
        if config.embedding_scale != 1:
            stream *= config.embedding_scale
        activate = _ACTIVATIONS[config.activation]
        for index, layer in enumerate(self.layers):
            mixed = step.attend(index, self._projected(layer, stream, step.positions))
            stream += self._maybe_normed(layer.output(mixed), layer.post_attention_norm)
            gate, up = layer.gate_up(self._normed(stream, layer.feed_norm)).chunk(2, dim=-1)
            stream += self._maybe_normed(layer.down(activate(gate).mul_(up)), layer.post_feed_norm)
        last = self._normed(stream[step.logit_rows], self.norm)
        return self.head(last)[: step.num_logits]

    def _projected(self, layer: DecoderLayer, stream: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Return queries, keys and values [R, H + 2K, D], queries and keys normed and turned."""
        config = self.config
        projected = layer.qkv(self._normed(stream, layer.attention_norm)).view(
            stream.shape[0], config.heads + 2 * config.kv_heads, config.head_dim
        )
        turned = projected[:, : config.heads + config.kv_heads]
        if layer.head_gains is not None:
            even = torch.rms_norm(turned, (config.head_dim,), None, config.norm_eps)
            torch.mul(even, layer.head_gains, out=turned)
        turn = layer.rotary[positions].unsqueeze(1)
        torch.view_as_complex(turned.view(*turned.shape[:2], -1, 2)).mul_(turn)
        return projected

    def _normed(self, rows: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        return torch.rms_norm(rows, (self.config.hidden,), gain, self.config.norm_eps)

    def _maybe_normed(self, rows: torch.Tensor, gain: torch.Tensor | None) -> torch.Tensor:
        return rows if gain is None else self._normed(rows, gain)


@torch.inference_mode()
def _layer(config: ModelConfig, make: LinearMaker, layer: LayerWeights, rotary: torch.Tensor) -> DecoderLayer:
    return DecoderLayer(
        attention_norm=layer.attention_norm,
        qkv=make(_joined(layer.query, layer.key, layer.value), _joined_bias(layer)),
        head_gains=_head_gains(config, layer),
        output=make(layer.output.dense(), None),
        post_attention_norm=layer.post_attention_norm,
        feed_norm=layer.feed_norm,
        gate_up=make(_joined(layer.gate, layer.up), None),
        down=make(layer.down.dense(), None),
        post_feed_norm=layer.post_feed_norm,
        rotary=rotary,
    )


def _joined(*parts: Matrix) -> torch.Tensor:
    return torch.cat([part.dense() for part in parts])


def _joined_bias(layer: LayerWeights) -> torch.Tensor | None:
    if layer.query_bias is None or layer.key_bias is None or layer.value_bias is None:
        return None
    return torch.cat((layer.query_bias, layer.key_bias, layer.value_bias))


def _head_gains(config: ModelConfig, layer: LayerWeights) -> torch.Tensor | None:
    if layer.query_norm is None or layer.key_norm is None:
        return None
    return torch.cat((layer.query_norm.expand(config.heads, -1), layer.key_norm.expand(config.kv_heads, -1)))
