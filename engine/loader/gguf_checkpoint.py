"""A GGUF file as a checkpoint: names turned into Hugging Face's, weights left as they are stored."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.chat_template import ChatTemplate
from engine.errors import ModelError
from engine.loader.contract import MALFORMED, Checkpoint, ModelConfig, StoredWeight, Weights, checked_layers
from engine.loader.gguf_file import GgufFile
from engine.loader.gguf_tokenizer import build_tokenizer
from engine.models import Family, family_named, family_of
from engine.tokenizer import Tokenizer

_TOP_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
    "rope_freqs.weight": "rope_freqs.weight",
}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_POST_NORM_NAMES = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_ROTARY_PAIRS = frozenset({"llama"})
"""Architectures whose converter puts the rotary pairs of queries and keys side by side."""

_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
_TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>")


def load_gguf(path: Path) -> Checkpoint:
    """Open a GGUF model.

    Raises:
        ModelError: it is broken, or of an unknown architecture or tokenizer.
    """
    file = GgufFile(path)
    parts = file.metadata.get("split.count", 1)
    if parts != 1:
        raise ModelError(f"{path} is one of {parts} parts; join them first, as with llama-gguf-split --merge")
    config = _config(file)
    tokenizer = build_tokenizer(file.metadata)
    return Checkpoint(
        config=config,
        weights=_weights(file, config.family),
        tokenizer=tokenizer,
        template=_template(file.metadata),
        eos_ids=_ends(file.metadata, tokenizer),
    )


def _ends(metadata: Mapping[str, Any], tokenizer: Tokenizer) -> frozenset[int]:
    """Collect what ends an answer; files often leave out the token that ends a turn: it is found by its name."""
    named = (metadata.get(f"tokenizer.ggml.{key}") for key in _END_KEYS)
    spelt = (tokenizer.backend.token_to_id(name) for name in _TURN_ENDS)
    return frozenset(
        [
            *(end for end in named if isinstance(end, int)),
            *(end for end in spelt if end is not None and end in tokenizer.specials),
        ]
    )


def _config(file: GgufFile) -> ModelConfig:
    architecture = file.metadata.get("general.architecture")
    family = family_of(architecture)
    prefix = f"{architecture}."
    meta = {key.removeprefix(prefix): value for key, value in file.metadata.items() if key.startswith(prefix)}
    if meta.get("expert_count"):
        raise ModelError(f"{file.path}: mixtures of experts are not supported")
    try:
        fields = _common_fields(meta) | dict(family_named(family).gguf_fields(meta))
        embedding = file.tensors["token_embd.weight"].shape[0]
        return ModelConfig(family=family, vocab=embedding, tied="output.weight" not in file.tensors, **fields)
    except MALFORMED as error:
        raise ModelError(f"{file.path}: architecture {architecture!r} lacks or mistypes {error}") from error


def _common_fields(meta: Mapping[str, Any]) -> dict[str, Any]:
    heads, hidden = meta["attention.head_count"], meta["embedding_length"]
    head_dim = meta.get("attention.key_length", hidden // heads)
    if {meta.get(key, head_dim) for key in ("attention.value_length", "rope.dimension_count")} != {head_dim}:
        raise ModelError("values or rotations narrower than the keys are not supported")
    scaling = meta.get("rope.scaling.type", "none")
    if scaling not in ("none", "linear"):
        raise ModelError(f"rope scaling {scaling!r} by metadata is not supported")
    return {
        "hidden": hidden,
        "layers": checked_layers(meta["block_count"]),
        "heads": heads,
        "kv_heads": meta.get("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "intermediate": meta["feed_forward_length"],
        "context": meta["context_length"],
        "norm_eps": meta["attention.layer_norm_rms_epsilon"],
        "rope_theta": meta.get("rope.freq_base", 10000.0),
        "rope_factor": meta["rope.scaling.factor"] if scaling == "linear" else 1.0,
    }


def _weights(file: GgufFile, family: str) -> Weights:
    described = family_named(family)
    stored = {
        _public_name(name, described): StoredWeight(entry.shape, lambda name=name: file.matrix(name))  # type: ignore[misc]
        for name, entry in file.tensors.items()
    }
    return Weights(stored, rotary_pairs=described.gguf in _ROTARY_PAIRS)


def _public_name(name: str, family: Family) -> str:
    if name in _TOP_NAMES:
        return _TOP_NAMES[name]
    parts = name.split(".")
    layer_names = _LAYER_NAMES | (_POST_NORM_NAMES if family.post_norms else {})
    if len(parts) != len(("blk", "N", "part", "weight")) or parts[0] != "blk" or parts[2] not in layer_names:
        return name
    return f"model.layers.{parts[1]}.{layer_names[parts[2]]}.{parts[3]}"


def _template(metadata: Mapping[str, Any]) -> ChatTemplate | None:
    source = metadata.get("tokenizer.chat_template")
    if source is None:
        return None
    tokens = metadata["tokenizer.ggml.tokens"]
    ids = {name: metadata.get(f"tokenizer.ggml.{name}_id") for name in ("bos_token", "eos_token")}
    return ChatTemplate(source, {name: tokens[i] for name, i in ids.items() if isinstance(i, int)})
