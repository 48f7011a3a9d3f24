"""Shapes of models on disk: the config.json of a Hugging Face folder, or the metadata of a GGUF file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from engine.errors import ModelError
from engine.plan.named import find_shape
from engine.plan.shape import Experts, Latent, Shape

_PERIOD = 6
"""Of Gemma 3, where its configuration does not say: each sixth layer sees everything."""


@dataclass(frozen=True, slots=True)
class Found:
    """A model to plan for.

    Attributes:
        stored_bytes: of its weights as its files keep them; None for a named shape.
    """

    shape: Shape
    stored_bytes: int | None = None


class _GgufShapes(Protocol):
    def read_gguf_shape(self, path: Path) -> tuple[Shape, int]: ...


def find_model(model: str) -> Found:
    """A folder, a GGUF file, or else a named shape. Reads no weights; only a GGUF file needs the loader and torch.

    Raises:
        ModelError: there is no such model, or it cannot be read.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        return Found(folder_shape(path), sum(file.stat().st_size for file in path.glob("*.safetensors")) or None)
    if path.is_file():
        reader = cast("_GgufShapes", import_module("engine.plan.gguf_shape"))
        return Found(*reader.read_gguf_shape(path))
    return Found(find_shape(model))


def folder_shape(path: Path) -> Shape:
    """The shape that a folder's config.json describes, of any architecture with the usual names.

    Raises:
        ModelError: the file is absent, broken, or lacks a size.
    """
    try:
        raw = json.loads((path / "config.json").read_text("utf-8"))
        if not isinstance(raw, dict):
            raise ModelError(f"{path / 'config.json'} is not a JSON object")
        return config_shape(raw | (raw.get("text_config") or {}), path.resolve().name)
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {path / 'config.json'}: {error}") from error
    except (KeyError, TypeError) as error:
        raise ModelError(f"{path / 'config.json'} lacks or mistypes {error}") from error


def config_shape(raw: Mapping[str, Any], name: str) -> Shape:
    """The shape in the words of a Hugging Face configuration.

    Raises:
        KeyError, TypeError: a size is absent or no number.
        ModelError: the sizes do not fit together.
    """
    hidden, layers, heads = raw["hidden_size"], raw["num_hidden_layers"], raw["num_attention_heads"]
    family = str(raw.get("model_type", ""))
    latent, gemma = _latent(raw), family.startswith("gemma3")
    return Shape(
        name=name,
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=1 if raw.get("multi_query") else raw.get("num_key_value_heads") or heads,
        head_dim=raw.get("head_dim") or hidden // heads,
        intermediate=raw.get("intermediate_size") or 4 * hidden,
        vocab=raw["vocab_size"],
        context=raw.get("max_position_embeddings") or raw.get("max_sequence_length") or 2048,
        tied=bool(raw.get("tie_word_embeddings", gemma or family == "falcon")),
        windows=_windows(raw, layers, gemma=gemma),
        kv_from=_shared(raw, layers),
        latent=latent,
        experts=_experts(raw),
        qkv_bias=family == "qwen2" or bool(raw.get("attention_bias")),
        qk_norm=gemma or family.startswith("qwen3"),
        gated=family != "falcon",
        norms=4 if gemma else 2,
    )


def _latent(raw: Mapping[str, Any]) -> Latent | None:
    if not raw.get("kv_lora_rank"):
        return None
    return Latent(
        kv_rank=raw["kv_lora_rank"],
        rope_dim=raw["qk_rope_head_dim"],
        nope_dim=raw["qk_nope_head_dim"],
        value_dim=raw["v_head_dim"],
        query_rank=raw.get("q_lora_rank"),
    )


def _experts(raw: Mapping[str, Any]) -> Experts | None:
    routed = raw.get("n_routed_experts") or raw.get("num_local_experts") or raw.get("num_experts")
    if not routed:
        return None
    return Experts(
        routed=routed,
        shared=raw.get("n_shared_experts") or 0,
        size=raw.get("moe_intermediate_size") or raw["intermediate_size"],
        dense_layers=raw.get("first_k_dense_replace") or 0,
    )


def _windows(raw: Mapping[str, Any], layers: int, *, gemma: bool) -> tuple[int | None, ...]:
    window, kinds = raw.get("sliding_window"), raw.get("layer_types")
    if not window or raw.get("use_sliding_window") is False:
        return ()
    if kinds:
        return tuple(window if kind == "sliding_attention" else None for kind in kinds)
    period = raw.get("sliding_window_pattern") or raw.get("_sliding_window_pattern") or (_PERIOD if gemma else 0)
    if not period:
        return (window,) * layers
    return tuple(None if (layer + 1) % period == 0 else window for layer in range(layers))


def _shared(raw: Mapping[str, Any], layers: int) -> tuple[int, ...]:
    """Gemma 3n: the last layers read what the last one of their kind before them keeps."""
    shared, kinds = raw.get("num_kv_shared_layers") or 0, raw.get("layer_types") or []
    if not shared or len(kinds) != layers:
        return ()
    own = list(range(layers - shared))
    latest = {kinds[layer]: layer for layer in own}
    return (*own, *(latest.get(kinds[layer], layer) for layer in range(layers - shared, layers)))
