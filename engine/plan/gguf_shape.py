"""The shape of a GGUF model, from its metadata and its tensor table."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gguf import GGML_QUANT_SIZES

from engine.errors import ModelError
from engine.loader.gguf_file import GgufFile
from engine.plan.shape import Experts, Latent, Shape

_PERIODS = {"gemma3": 6, "gemma2": 2}


def read_gguf_shape(path: Path) -> tuple[Shape, int]:
    """The shape, and the bytes its tensors take in the file.

    Raises:
        ModelError: the file is no GGUF, or lacks a size.
    """
    file = GgufFile(path)
    family = str(file.metadata.get("general.architecture"))
    prefix = f"{family}."
    meta = {key.removeprefix(prefix): value for key, value in file.metadata.items() if key.startswith(prefix)}
    try:
        return _shape(file, meta, family), sum(map(_tensor_bytes, file.tensors.values()))
    except (KeyError, TypeError) as error:
        raise ModelError(f"{path}: architecture {family!r} lacks or mistypes {error}") from error


def _shape(file: GgufFile, meta: Mapping[str, Any], family: str) -> Shape:
    heads, hidden, layers = meta["attention.head_count"], meta["embedding_length"], meta["block_count"]
    kv_heads = meta.get("attention.head_count_kv", heads)
    names = file.tensors.keys()
    return Shape(
        name=file.path.name,
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=max(kv_heads) if isinstance(kv_heads, list) else kv_heads,
        head_dim=meta.get("attention.key_length", hidden // heads),
        intermediate=meta["feed_forward_length"],
        vocab=file.tensors["token_embd.weight"].shape[0],
        context=meta["context_length"],
        tied="output.weight" not in names,
        windows=_windows(meta, layers, family),
        latent=_latent(meta),
        experts=_experts(meta),
        qkv_bias="blk.0.attn_q.bias" in names,
        qk_norm="blk.0.attn_q_norm.weight" in names,
        gated="blk.0.ffn_gate.weight" in names or "blk.0.ffn_gate_exps.weight" in names,
        norms=sum(name.startswith("blk.0.") and name.endswith("norm.weight") for name in names)
        - 2 * ("blk.0.attn_q_norm.weight" in names),
    )


def _windows(meta: Mapping[str, Any], layers: int, family: str) -> tuple[int | None, ...]:
    window, period = meta.get("attention.sliding_window"), _PERIODS.get(family)
    if not window:
        return ()
    if period is None:
        return (window,) * layers
    return tuple(None if (layer + 1) % period == 0 else window for layer in range(layers))


def _latent(meta: Mapping[str, Any]) -> Latent | None:
    rank = meta.get("attention.kv_lora_rank")
    if not rank:
        return None
    rope = meta["rope.dimension_count"]
    return Latent(
        kv_rank=rank,
        rope_dim=rope,
        nope_dim=meta.get("attention.key_length_mla", meta["attention.key_length"]) - rope,
        value_dim=meta.get("attention.value_length_mla", meta["attention.value_length"]),
        query_rank=meta.get("attention.q_lora_rank"),
    )


def _experts(meta: Mapping[str, Any]) -> Experts | None:
    if not meta.get("expert_count"):
        return None
    return Experts(
        routed=meta["expert_count"],
        shared=meta.get("expert_shared_count", 0),
        size=meta.get("expert_feed_forward_length", meta["feed_forward_length"]),
        dense_layers=meta.get("leading_dense_block_count", 0),
    )


def _tensor_bytes(entry: Any) -> int:
    block, block_bytes = GGML_QUANT_SIZES[entry.kind]
    return int(math.prod(entry.shape)) // block * block_bytes
