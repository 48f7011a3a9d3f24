"""The decoder of every family on a GPU: weights in half precision, sums in fp32, few and large kernels.

The weights and steps are those of `engine.models.decoder`, cut so that what lies between two matrix products is
one kernel, and so that a step of fixed shape can be captured in a CUDA graph: nothing here waits for the device.

Legend: R rows of the step, C hidden size, H query heads, K KV heads, D head size, F feed-forward size.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch.nn import functional

from engine.cuda.row_ops import RowOps
from engine.loader.contract import ModelConfig
from engine.loader.matrix import Matrix
from engine.models.contract import StepInput
from engine.models.decoder_weights import DecoderWeights, LayerWeights


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the weights lie, and what numbers they and the activations are."""

    device: str
    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class DeviceLayer:
    """One layer on the device; matrices in the placement's dtype, gains in fp32.

    Attributes:
        qkv: [(H + 2K) * D, C], queries before keys before values.
        qkv_bias: likewise, or None.
        head_gains: [H + K, D], or None.
        output: [C, H * D].
        gate_up: [2F, C], gates before ups.
        down: [C, F].
        angles: fp32 [context, D], cosine and sine of each pair side by side.
    """

    attention_norm: torch.Tensor
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    head_gains: torch.Tensor | None
    output: torch.Tensor
    post_attention_norm: torch.Tensor | None
    feed_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor
    post_feed_norm: torch.Tensor | None
    angles: torch.Tensor


@dataclass(frozen=True, slots=True)
class DeviceDecoder:
    """A decoder on a device; see `engine.models.contract.Model`. A step's ids lie on the device too."""

    config: ModelConfig
    ops: RowOps
    embedding: torch.Tensor
    layers: tuple[DeviceLayer, ...]
    norm: torch.Tensor
    head: torch.Tensor

    @classmethod
    def build(cls, config: ModelConfig, weights: DecoderWeights, ops: RowOps, place: Placement) -> Self:
        """Copy the weights to the device, one matrix at a time."""
        put = _Put(config, place, {})
        embedding = put.matrix(weights.embedding)
        tied = weights.head is weights.embedding
        return cls(
            config=config,
            ops=ops,
            embedding=embedding,
            layers=tuple(
                put.layer(layer, rotary) for layer, rotary in zip(weights.layers, weights.rotary, strict=True)
            ),
            norm=put.vector(weights.norm),
            head=embedding if tied else put.matrix(weights.head),
        )

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights a step reads; of an embedding that is not the head as good as none are."""
        tensors = [self.norm, self.head]
        for layer in self.layers:
            tensors += [layer.qkv, layer.output, layer.gate_up, layer.down, layer.attention_norm, layer.feed_norm]
        return sum(tensor.numel() * tensor.itemsize for tensor in tensors)

    def forward(self, step: StepInput) -> torch.Tensor:
        """Run the step; logits only for the rows that want them."""
        config, ops = self.config, self.ops
        stream = self.embedding[step.ids].float()
        if config.embedding_scale != 1:
            stream *= config.embedding_scale
        delta, delta_gain = None, None
        turned = config.heads + config.kv_heads
        for index, layer in enumerate(self.layers):
            normed = ops.add_norm(stream, delta, delta_gain, layer.attention_norm)
            rows = functional.linear(normed, layer.qkv, layer.qkv_bias)
            rows = rows.view(-1, config.heads + 2 * config.kv_heads, config.head_dim)
            ops.turn(rows[:, :turned], step.positions, layer.angles, layer.head_gains)
            mixed = functional.linear(step.attend(index, rows), layer.output)
            normed = ops.add_norm(stream, mixed, layer.post_attention_norm, layer.feed_norm)
            opened = ops.gate(functional.linear(normed, layer.gate_up))
            delta, delta_gain = functional.linear(opened, layer.down), layer.post_feed_norm
        normed = ops.add_norm(stream, delta, delta_gain, self.norm)
        return self._logits(normed[step.logit_rows])[: step.num_logits]

    def _logits(self, rows: torch.Tensor) -> torch.Tensor:
        """Multiply into fp32: half precision would round near logits to the same number."""
        if rows.is_cuda and rows.dtype != torch.float32:
            return torch.mm(rows, self.head.t(), out_dtype=torch.float32)
        return functional.linear(rows, self.head).float()


@dataclass(frozen=True, slots=True)
class _Put:
    """Copies weights over; tables that layers share are copied once."""

    config: ModelConfig
    place: Placement
    angles: dict[int, torch.Tensor]

    def matrix(self, *parts: Matrix) -> torch.Tensor:
        return torch.cat([part.dense().to(self.place.device, self.place.dtype) for part in parts])

    def vector(self, values: torch.Tensor) -> torch.Tensor:
        return values.to(self.place.device, torch.float32)

    def maybe(self, values: torch.Tensor | None) -> torch.Tensor | None:
        return None if values is None else self.vector(values)

    def layer(self, layer: LayerWeights, rotary: torch.Tensor) -> DeviceLayer:
        return DeviceLayer(
            attention_norm=self.vector(layer.attention_norm),
            qkv=self.matrix(layer.query, layer.key, layer.value),
            qkv_bias=self.bias(layer),
            head_gains=self.gains(layer),
            output=self.matrix(layer.output),
            post_attention_norm=self.maybe(layer.post_attention_norm),
            feed_norm=self.vector(layer.feed_norm),
            gate_up=self.matrix(layer.gate, layer.up),
            down=self.matrix(layer.down),
            post_feed_norm=self.maybe(layer.post_feed_norm),
            angles=self.turns(rotary),
        )

    def bias(self, layer: LayerWeights) -> torch.Tensor | None:
        if layer.query_bias is None or layer.key_bias is None or layer.value_bias is None:
            return None
        joined = torch.cat((layer.query_bias, layer.key_bias, layer.value_bias))
        return joined.to(self.place.device, self.place.dtype)

    def gains(self, layer: LayerWeights) -> torch.Tensor | None:
        if layer.query_norm is None or layer.key_norm is None:
            return None
        query, key = layer.query_norm, layer.key_norm
        return self.vector(torch.cat((query.expand(self.config.heads, -1), key.expand(self.config.kv_heads, -1))))

    def turns(self, rotary: torch.Tensor) -> torch.Tensor:
        if id(rotary) not in self.angles:
            self.angles[id(rotary)] = torch.view_as_real(rotary).flatten(-2).to(self.place.device)
        return self.angles[id(rotary)]
