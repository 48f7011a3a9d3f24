"""The Llama family: RMS norm, rotary attention with any number of KV heads (MHA, GQA, MQA), gated SiLU.

Legend: R rows of the step, C hidden size, H query heads, K KV heads, D head size, F feed-forward size.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

import torch
from torch.nn import functional

from engine.attention.paged import PagedKV, attend
from engine.kernels import LINEARS, Linear
from engine.loader.contract import ModelConfig, Weights
from engine.models.contract import StepInput
from engine.models.rotary import paired, rotary_table


@dataclass(frozen=True, slots=True)
class LlamaLayer:
    """Weights of one layer, projections fused: queries, keys and values; gate and up."""

    attention_norm: torch.Tensor
    qkv: Linear
    output: Linear
    feed_norm: torch.Tensor
    gate_up: Linear
    down: Linear


@dataclass(frozen=True, slots=True)
class Llama:
    """A Llama decoder; see `engine.models.contract.Model`."""

    config: ModelConfig
    embedding: torch.Tensor
    rotary: torch.Tensor
    layers: tuple[LlamaLayer, ...]
    norm: torch.Tensor
    head: Linear

    @classmethod
    def build(cls, config: ModelConfig, weights: Weights, linear: str) -> Self:
        """Take the weights; raise when one is missing or left over."""
        make = LINEARS[linear]
        embedding = weights.take("model.embed_tokens.weight", config.vocab, config.hidden)
        if config.tied:
            weights.drop("lm_head.weight")
            head = embedding
        else:
            head = weights.take("lm_head.weight", config.vocab, config.hidden)
        factors = "rope_freqs.weight"
        model = cls(
            config=config,
            embedding=embedding,
            rotary=rotary_table(
                config, weights.take(factors, config.head_dim // 2) if factors in weights else None
            ),
            layers=_layers(config, weights, linear),
            norm=weights.take("model.norm.weight", config.hidden),
            head=make(head),
        )
        weights.finish()
        return model

    def forward(self, step: StepInput, kv: PagedKV) -> torch.Tensor:
        """Run the step; logits only for the rows that want them."""
        config = self.config
        stream = functional.embedding(step.ids, self.embedding)
        turn = self.rotary[step.positions].unsqueeze(1)
        mixed = torch.zeros(stream.shape[0], config.heads * config.head_dim)
        for index, layer in enumerate(self.layers):
            self._attention(layer, index, (stream, turn, mixed), step, kv)
            stream += layer.output(mixed)
            gate, up = layer.gate_up(self._normed(stream, layer.feed_norm)).chunk(2, dim=-1)
            stream += layer.down(functional.silu(gate).mul_(up))
        last = self._normed(stream[step.logit_rows], self.norm)
        return self.head(last)[: step.num_logits]

    def _attention(
        self,
        layer: LlamaLayer,
        index: int,
        rows: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
        step: StepInput,
        kv: PagedKV,
    ) -> None:
        """Fill `mixed` from `stream`: project, turn queries and keys in place, store, attend."""
        config = self.config
        stream, turn, mixed = rows
        projected = layer.qkv(self._normed(stream, layer.attention_norm)).view(
            stream.shape[0], config.heads + 2 * config.kv_heads, config.head_dim
        )
        turned = projected[:, : config.heads + config.kv_heads]
        torch.view_as_complex(turned.view(*turned.shape[:2], -1, 2)).mul_(turn)
        kv.write(index, step.write_slots, projected[: step.num_tokens, config.heads :])
        attend(projected[:, : config.heads], kv, index, step.segments, mixed)

    def _normed(self, rows: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        return torch.rms_norm(rows, (self.config.hidden,), gain, self.config.norm_eps)


def _layers(config: ModelConfig, weights: Weights, linear: str) -> tuple[LlamaLayer, ...]:
    """Build all layers, several at a time: reading and packing leave the interpreter alone."""
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        return tuple(pool.map(lambda index: _layer(config, weights, linear, index), range(config.layers)))


@torch.inference_mode()
def _layer(config: ModelConfig, weights: Weights, linear: str, index: int) -> LlamaLayer:
    make, name = LINEARS[linear], f"model.layers.{index}."
    query_rows, kv_rows = config.heads * config.head_dim, config.kv_heads * config.head_dim

    def take(part: str, rows: int, inputs: int) -> torch.Tensor:
        return weights.take(f"{name}{part}.weight", rows, inputs)

    query = paired(take("self_attn.q_proj", query_rows, config.hidden), config.heads)
    key = paired(take("self_attn.k_proj", kv_rows, config.hidden), config.kv_heads)
    value = take("self_attn.v_proj", kv_rows, config.hidden)
    gate = take("mlp.gate_proj", config.intermediate, config.hidden)
    up = take("mlp.up_proj", config.intermediate, config.hidden)
    return LlamaLayer(
        attention_norm=weights.take(f"{name}input_layernorm.weight", config.hidden),
        qkv=make(torch.cat((query, key, value))),
        output=make(take("self_attn.o_proj", config.hidden, query_rows)),
        feed_norm=weights.take(f"{name}post_attention_layernorm.weight", config.hidden),
        gate_up=make(torch.cat((gate, up))),
        down=make(take("mlp.down_proj", config.hidden, config.intermediate)),
    )
