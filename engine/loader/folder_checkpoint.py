"""A Hugging Face folder as a checkpoint: config.json, tokenizer.json, safetensors, chat template."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tokenizers
import torch
from safetensors import SafetensorError, safe_open

from engine.chat_template import ChatTemplate
from engine.errors import ModelError
from engine.loader.contract import Checkpoint, ModelConfig, RopeScaling, Weights
from engine.tokenizer import Tokenizer

FAMILIES = {"LlamaForCausalLM": "llama"}
"""Hugging Face architecture name to a key of `engine.models.MODELS`."""


def load_folder(path: Path) -> Checkpoint:
    """Open a model folder.

    Raises:
        ModelError: a file is absent or broken, or the architecture is unknown.
    """
    raw = _read_json(path / "config.json")
    settings = _read_json(path / "tokenizer_config.json", required=False)
    generation = _read_json(path / "generation_config.json", required=False)
    tokenizer = _tokenizer(path / "tokenizer.json")
    ends = _ids(raw.get("eos_token_id")) | _ids(generation.get("eos_token_id"))
    eos = tokenizer.backend.token_to_id(_token_text(settings.get("eos_token")) or "")
    return Checkpoint(
        config=_config(raw),
        weights=_weights(path),
        tokenizer=tokenizer,
        template=_template(path, settings),
        eos_ids=ends if eos is None else ends | {eos},
    )


def _read_json(path: Path, *, required: bool = True) -> dict[str, Any]:
    if not required and not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {path}: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} is not a JSON object")
    return value


def _config(raw: Mapping[str, Any]) -> ModelConfig:
    architectures = raw.get("architectures") or [None]
    family = FAMILIES.get(architectures[0])
    if family is None:
        raise ModelError(f"architecture {architectures[0]!r} is not supported; known: {', '.join(FAMILIES)}")
    if raw.get("hidden_act", "silu") != "silu":
        raise ModelError(f"activation {raw['hidden_act']!r} is not supported")
    rope = raw.get("rope_parameters") or {}
    try:
        return ModelConfig(
            family=family,
            hidden=raw["hidden_size"],
            layers=raw["num_hidden_layers"],
            heads=raw["num_attention_heads"],
            kv_heads=raw.get("num_key_value_heads") or raw["num_attention_heads"],
            head_dim=raw.get("head_dim") or raw["hidden_size"] // raw["num_attention_heads"],
            intermediate=raw["intermediate_size"],
            vocab=raw["vocab_size"],
            context=raw["max_position_embeddings"],
            norm_eps=raw["rms_norm_eps"],
            rope_theta=rope.get("rope_theta") or raw.get("rope_theta", 10000.0),
            tied=bool(raw.get("tie_word_embeddings", False)),
            rope_scaling=_rope_scaling(raw.get("rope_scaling") or rope),
        )
    except (KeyError, TypeError) as error:
        raise ModelError(f"config.json lacks or mistypes {error}") from error


def _rope_scaling(raw: Mapping[str, Any]) -> RopeScaling | None:
    kind = raw.get("rope_type", raw.get("type", "default"))
    if kind == "default":
        return None
    if kind != "llama3":
        raise ModelError(f"rope scaling {kind!r} is not supported")
    return RopeScaling(
        factor=raw["factor"],
        low_freq_factor=raw["low_freq_factor"],
        high_freq_factor=raw["high_freq_factor"],
        original_context=raw["original_max_position_embeddings"],
    )


def _tokenizer(path: Path) -> Tokenizer:
    raw = _read_json(path)
    try:
        backend = tokenizers.Tokenizer.from_str(json.dumps(raw))
    except Exception as error:  # the library raises bare Exception
        raise ModelError(f"cannot read {path}: {error}") from error
    backend.no_truncation()
    backend.no_padding()
    specials = frozenset(token["id"] for token in raw.get("added_tokens", ()) if token.get("special"))
    decoder = json.dumps(raw.get("decoder"))
    if "ByteLevel" not in decoder and "ByteFallback" not in decoder:
        raise ModelError(f"{path}: its decoder is neither byte-level nor SentencePiece with byte fallback")
    return Tokenizer(backend, byte_level="ByteLevel" in decoder, specials=specials)


def _weights(path: Path) -> Weights:
    index = path / "model.safetensors.index.json"
    if index.is_file():
        files = sorted({path / Path(name).name for name in _read_json(index).get("weight_map", {}).values()})
    else:
        files = [path / "model.safetensors"]
    readers: dict[str, Callable[[], torch.Tensor]] = {}
    for file in files:
        try:
            with safe_open(file, framework="pt") as opened:
                readers.update({name: _reader(file, name) for name in opened.keys()})  # noqa: SIM118  (no mapping)
        except (OSError, SafetensorError) as error:
            raise ModelError(f"cannot read {file}: {error}") from error
    return Weights({name: read for name, read in readers.items() if not name.endswith("rotary_emb.inv_freq")})


def _reader(file: Path, name: str) -> Callable[[], torch.Tensor]:
    def read() -> torch.Tensor:
        with safe_open(file, framework="pt") as opened:
            tensor: torch.Tensor = opened.get_tensor(name)
            return tensor

    return read


def _template(path: Path, settings: Mapping[str, Any]) -> ChatTemplate | None:
    file = path / "chat_template.jinja"
    source = file.read_text(encoding="utf-8") if file.is_file() else settings.get("chat_template")
    if isinstance(source, list):
        source = next((entry["template"] for entry in source if entry.get("name") == "default"), None)
    if source is None:
        return None
    names = ("bos_token", "eos_token")
    return ChatTemplate(source, {name: text for name in names if (text := _token_text(settings.get(name)))})


def _token_text(token: Any) -> str | None:
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else None


def _ids(value: Any) -> frozenset[int]:
    return frozenset([value] if isinstance(value, int) else value or ())
