"""A GGUF file as a checkpoint: names and layouts turned into Hugging Face's."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.chat_template import ChatTemplate
from engine.errors import ModelError
from engine.loader.contract import Checkpoint, ModelConfig, Weights
from engine.loader.gguf_file import GgufFile
from engine.loader.gguf_tokenizer import build_tokenizer

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
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_PERMUTED = {"llama": ("attn_q", "attn_k")}
_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")


def load_gguf(path: Path) -> Checkpoint:
    """Open a GGUF model.

    Raises:
        ModelError: it is broken, or of an unknown architecture or tokenizer.
    """
    file = GgufFile(path)
    config = _config(file)
    tokenizer = build_tokenizer(file.metadata)
    ends = (file.metadata.get(f"tokenizer.ggml.{key}") for key in _END_KEYS)
    return Checkpoint(
        config=config,
        weights=_weights(file, config),
        tokenizer=tokenizer,
        template=_template(file.metadata),
        eos_ids=frozenset(end for end in ends if isinstance(end, int)),
    )


def _config(file: GgufFile) -> ModelConfig:
    meta, family = file.metadata, str(file.metadata.get("general.architecture"))
    if meta.get(f"{family}.rope.scaling.type", "none") != "none":
        raise ModelError(f"{file.path}: rope scaling by metadata is not supported")
    try:
        heads, hidden = meta[f"{family}.attention.head_count"], meta[f"{family}.embedding_length"]
        return ModelConfig(
            family=family,
            hidden=hidden,
            layers=meta[f"{family}.block_count"],
            heads=heads,
            kv_heads=meta.get(f"{family}.attention.head_count_kv", heads),
            head_dim=meta.get(f"{family}.attention.key_length", hidden // heads),
            intermediate=meta[f"{family}.feed_forward_length"],
            vocab=len(meta["tokenizer.ggml.tokens"]),
            context=meta[f"{family}.context_length"],
            norm_eps=meta[f"{family}.attention.layer_norm_rms_epsilon"],
            rope_theta=meta.get(f"{family}.rope.freq_base", 10000.0),
            tied="output.weight" not in file.tensors,
        )
    except (KeyError, TypeError) as error:
        raise ModelError(f"{file.path}: architecture {family!r} lacks or mistypes {error}") from error


def _weights(file: GgufFile, config: ModelConfig) -> Weights:
    return Weights(dict(_reader(file, name, config) for name in file.tensors))


def _reader(file: GgufFile, name: str, config: ModelConfig) -> tuple[str, Callable[[], torch.Tensor]]:
    def read() -> torch.Tensor:
        return torch.from_numpy(np.require(file.tensor(name), requirements="W"))

    if name in _TOP_NAMES:
        return _TOP_NAMES[name], read
    parts = name.split(".")
    if len(parts) != len(("blk", "N", "part", "weight")) or parts[0] != "blk" or parts[2] not in _LAYER_NAMES:
        return name, read
    public = f"model.layers.{parts[1]}.{_LAYER_NAMES[parts[2]]}.{parts[3]}"
    if parts[2] not in _PERMUTED.get(config.family, ()):
        return public, read
    heads = config.heads if parts[2] == "attn_q" else config.kv_heads
    return public, lambda: half_split(read(), heads)


def half_split(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Undo the row order GGUF gives the llama architecture: rotary pairs side by side, back to two halves."""
    rows, width = weight.shape
    return weight.view(heads, rows // heads // 2, 2, width).transpose(1, 2).reshape(rows, width)


def _template(metadata: Mapping[str, Any]) -> ChatTemplate | None:
    source = metadata.get("tokenizer.chat_template")
    if source is None:
        return None
    tokens = metadata["tokenizer.ggml.tokens"]
    ids = {name: metadata.get(f"tokenizer.ggml.{name}_id") for name in ("bos_token", "eos_token")}
    return ChatTemplate(source, {name: tokens[i] for name, i in ids.items() if isinstance(i, int)})
