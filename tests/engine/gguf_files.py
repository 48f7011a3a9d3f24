"""Tiny models as GGUF files, written as llama.cpp's converter would."""

from pathlib import Path

import gguf
import numpy as np
import torch

from engine.models.rotary import paired_rows
from tests.engine import tiny

_LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_GEMMA_NAMES = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
_TOP_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def write_gguf(
    path: Path, shape: tiny.Shape, kind: gguf.GGMLQuantizationType | None = None, *, eos_id: int = tiny.EOS_ID
) -> Path:
    """Write a tiny model; matrices quantised where a kind is given."""
    backend = tiny.byte_level_tokenizer()
    tokens = [backend.id_to_token(token_id) for token_id in range(backend.get_vocab_size())]
    writer = gguf.GGUFWriter(path, shape.family)
    _add_shape(writer, shape)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(tiny.SPECIALS) + [1] * (len(tokens) - len(tiny.SPECIALS)))
    writer.add_token_merges([" ".join(pair) for pair in tiny._MERGES])
    writer.add_eos_token_id(eos_id)
    writer.add_chat_template(tiny.TEMPLATE)
    for name, weight in tiny.random_weights(shape, len(tokens)).items():
        values = _as_converted(name, weight, shape).numpy()
        if kind is not None and values.ndim > 1:
            writer.add_tensor(gguf_name(name, shape), gguf.quants.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(gguf_name(name, shape), values)
    finish(writer)
    return path


def finish(writer: gguf.GGUFWriter) -> None:
    """Write everything out."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_name(name: str, shape: tiny.Shape) -> str:
    """Translate a Hugging Face name."""
    stem, _, kind = name.rpartition(".")
    if stem in _TOP_NAMES:
        return f"{_TOP_NAMES[stem]}.{kind}"
    layer, _, part = stem.removeprefix("model.layers.").partition(".")
    names = _LAYER_NAMES | (_GEMMA_NAMES if shape.family == "gemma3" else {})
    return f"blk.{layer}.{names[part]}.{kind}"


def _add_shape(writer: gguf.GGUFWriter, shape: tiny.Shape) -> None:
    writer.add_block_count(shape.layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.intermediate)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1_000_000.0 if shape.family == "gemma3" else 10000.0)
    if shape.family == "gemma3":
        writer.add_sliding_window(shape.window)
    if shape.rope == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(8.0)


def _as_converted(name: str, weight: torch.Tensor, shape: tiny.Shape) -> torch.Tensor:
    heads = {"q_proj": shape.heads, "k_proj": shape.kv_heads}.get(name.split(".")[-2])
    if shape.family == "llama" and heads:
        return weight[paired_rows(heads, shape.head_dim)]
    if shape.family == "gemma3" and name.endswith("norm.weight"):
        return weight + 1
    return weight


def random_blocks(kind: gguf.GGMLQuantizationType, rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Random stored bytes of a kind, their fp16 scales of sensible size. uint8 [rows, bytes of a row]."""
    block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    generator = np.random.default_rng(seed)
    blocks = generator.integers(0, 256, (rows * columns // block, block_bytes), dtype=np.uint8)
    for at in SCALE_OFFSETS[kind.name]:
        blocks[:, at : at + 2] = (
            generator.uniform(0.001, 0.02, len(blocks)).astype("<f2").view(np.uint8).reshape(-1, 2)
        )
    return blocks.reshape(rows, -1)


SCALE_OFFSETS = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q8_0": (0,), "Q4_K": (0, 2), "Q6_K": (208,)}
"""Where a block keeps its fp16 numbers."""
