"""Gemma 3, its text part: sliding windows in five layers of six, norms before and after, a scaled embedding.

Source: the Gemma 3 report, 2.1, and the defaults of transformers' Gemma3TextConfig and of llama.cpp's gemma3.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.errors import ModelError
from engine.models.family import Family

_PERIOD = 6
"""Each sixth layer sees everything."""

_LOCAL_THETA = 10_000.0
_LAYERS_27B = 62


def _folder_fields(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    if raw.get("attn_logit_softcapping") or raw.get("final_logit_softcapping"):
        raise ModelError("Gemma with soft-capped logits is not supported")
    if raw.get("use_bidirectional_attention"):
        raise ModelError("Gemma with bidirectional attention is not supported")
    layers, window = raw["num_hidden_layers"], raw["sliding_window"]
    period = raw.get("sliding_window_pattern") or raw.get("_sliding_window_pattern") or _PERIOD
    kinds = raw.get("layer_types")
    local = (
        [bool((index + 1) % period) for index in range(layers)]
        if kinds is None
        else [kind == "sliding_attention" for kind in kinds]
    )
    rope = raw.get("rope_parameters") or {}
    return {
        "windows": tuple(window if near else None for near in local),
        "local_rope_theta": rope.get("sliding_attention", {}).get("rope_theta")
        or raw.get("rope_local_base_freq", _LOCAL_THETA),
        "query_scale": raw["query_pre_attn_scalar"] ** -0.5,
        "embedding_scale": _embedding_scale(raw["hidden_size"]),
    }


def _gguf_fields(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    layers, window, hidden = raw["block_count"], raw["attention.sliding_window"], raw["embedding_length"]
    head_dim = hidden // raw["attention.head_count"] if layers == _LAYERS_27B else raw["attention.key_length"]
    pattern = raw.get("attention.sliding_window_pattern", _PERIOD)
    local = [bool((index + 1) % pattern) for index in range(layers)] if isinstance(pattern, int) else pattern
    return {
        "windows": tuple(window if near else None for near in local),
        "local_rope_theta": raw.get("rope.freq_base_swa", _LOCAL_THETA),
        "query_scale": head_dim**-0.5,
        "activation": "gelu_tanh",
        "embedding_scale": _embedding_scale(hidden),
    }


def _embedding_scale(hidden: int) -> float:
    return float(np.float32(math.sqrt(hidden)))


GEMMA3 = Family(
    architectures=("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"),
    gguf="gemma3",
    qk_norm=True,
    post_norms=True,
    gain_offset=1.0,
    folder_defaults={
        "vocab_size": 262_208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "max_position_embeddings": 131_072,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000.0,
        "tie_word_embeddings": True,
        "query_pre_attn_scalar": 256,
        "sliding_window": 4096,
    },
    folder_fields=_folder_fields,
    gguf_fields=_gguf_fields,
)
