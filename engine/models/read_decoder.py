"""Weights of any family, as a checkpoint names them, to the parts of a decoder.

Legend: as in `engine.models.decoder_weights`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from engine.loader.contract import ModelConfig, Weights
from engine.loader.matrix import Matrix
from engine.models import Family, family_named
from engine.models.decoder_weights import DecoderWeights, LayerWeights
from engine.models.rotary import paired_rows, rotary_tables

_FACTORS = "rope_freqs.weight"
_HEAD = "lm_head.weight"


def read_decoder(config: ModelConfig, weights: Weights) -> DecoderWeights:
    """Take every weight, matrices as they are stored.

    Raises:
        ModelError: a weight is missing, left over or of another shape.
    """
    embedding = weights.take_matrix("model.embed_tokens.weight", config.vocab, config.hidden)
    if config.tied:
        weights.drop(_HEAD)
        head = embedding
    else:
        head = weights.take_matrix(_HEAD, config.vocab, config.hidden)
    factors = weights.take(_FACTORS, config.head_dim // 2) if _FACTORS in weights else None
    family = family_named(config.family)
    decoder = DecoderWeights(
        embedding=embedding,
        layers=tuple(_Layer(config, family, weights, index).read() for index in range(config.layers)),
        norm=weights.take("model.norm.weight", config.hidden),
        head=head,
        rotary=rotary_tables(config, factors),
    )
    weights.finish()
    return decoder


@dataclass(frozen=True, slots=True)
class _Layer:
    """Takes the weights of one layer."""

    config: ModelConfig
    family: Family
    weights: Weights
    index: int

    def read(self) -> LayerWeights:
        config = self.config
        queries, keys, hidden = config.heads * config.head_dim, config.kv_heads * config.head_dim, config.hidden
        return LayerWeights(
            attention_norm=self._vector("input_layernorm", hidden),
            query=self._turned("q_proj", config.heads),
            key=self._turned("k_proj", config.kv_heads),
            value=self._matrix("self_attn.v_proj", keys, hidden),
            output=self._matrix("self_attn.o_proj", hidden, queries),
            gate=self._matrix("mlp.gate_proj", config.intermediate, hidden),
            up=self._matrix("mlp.up_proj", config.intermediate, hidden),
            down=self._matrix("mlp.down_proj", hidden, config.intermediate),
            **self._norms(),
            **self._biases(),
            **self._head_norms(),
        )

    def _norms(self) -> Mapping[str, torch.Tensor]:
        hidden = self.config.hidden
        after = self._vector("post_attention_layernorm", hidden)
        if not self.family.post_norms:
            return {"feed_norm": after}
        return {
            "post_attention_norm": after,
            "feed_norm": self._vector("pre_feedforward_layernorm", hidden),
            "post_feed_norm": self._vector("post_feedforward_layernorm", hidden),
        }

    def _biases(self) -> Mapping[str, torch.Tensor]:
        if not self.family.qkv_bias:
            return {}
        heads, kv_heads, head_dim = self.config.heads, self.config.kv_heads, self.config.head_dim
        query = self._vector("self_attn.q_proj", heads * head_dim, "bias")
        key = self._vector("self_attn.k_proj", kv_heads * head_dim, "bias")
        return {
            "query_bias": query[self._order(heads)],
            "key_bias": key[self._order(kv_heads)],
            "value_bias": self._vector("self_attn.v_proj", kv_heads * head_dim, "bias"),
        }

    def _head_norms(self) -> Mapping[str, torch.Tensor]:
        if not self.family.qk_norm:
            return {}
        order = self._order(1)
        return {
            "query_norm": self._vector("self_attn.q_norm", self.config.head_dim)[order],
            "key_norm": self._vector("self_attn.k_norm", self.config.head_dim)[order],
        }

    def _turned(self, part: str, heads: int) -> Matrix:
        matrix = self._matrix(f"self_attn.{part}", heads * self.config.head_dim, self.config.hidden)
        return matrix if self.weights.rotary_pairs else matrix.reordered(paired_rows(heads, self.config.head_dim))

    def _order(self, heads: int) -> torch.Tensor:
        rows = paired_rows(heads, self.config.head_dim)
        return torch.arange(len(rows)) if self.weights.rotary_pairs else torch.from_numpy(rows)

    def _matrix(self, part: str, rows: int, columns: int) -> Matrix:
        return self.weights.take_matrix(f"model.layers.{self.index}.{part}.weight", rows, columns)

    def _vector(self, part: str, size: int, kind: str = "weight") -> torch.Tensor:
        return self.weights.take(f"model.layers.{self.index}.{part}.{kind}", size)
