"""A Hugging Face folder as a checkpoint: config.json, tokenizer.json, safetensors, chat template."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import tokenizers
from safetensors import SafetensorError, safe_open

from engine.chat_template import ChatTemplate
from engine.errors import ModelError
from engine.loader.contract import (
    MALFORMED,
    Checkpoint,
    ModelConfig,
    RopeScaling,
    StoredWeight,
    Weights,
    checked_layers,
)
from engine.loader.matrix import Matrix
from engine.models import family_named, family_of
from engine.tokenizer import Tokenizer

_ACTIVATIONS = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh"}
_NOT_TEXT = ("vision_tower.", "multi_modal_projector.")
"""Parts of an image-and-text model that its text part runs without."""


def load_folder(path: Path) -> Checkpoint:
    """Open a model folder.

    Raises:
        ModelError: a file is absent or broken, or the architecture is unknown.
    """
    raw = _read_json(path / "config.json")
    settings = _read_json(path / "tokenizer_config.json", required=False)
    generation = _read_json(path / "generation_config.json", required=False)
    config = _config(raw)
    tokenizer = _tokenizer(path / "tokenizer.json", settings, config.vocab)
    ends = _ids(raw.get("eos_token_id")) | _ids(generation.get("eos_token_id"))
    eos = tokenizer.backend.token_to_id(_token_text(settings.get("eos_token")) or "")
    return Checkpoint(
        config=config,
        weights=_weights(path, family_named(config.family).gain_offset),
        tokenizer=tokenizer,
        template=_template(path, settings),
        eos_ids=ends if eos is None else ends | {eos},
    )


def _read_json(path: Path, *, required: bool = True) -> dict[str, Any]:
    if not required and not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"cannot read {path}: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} is not a JSON object")
    return value


def _config(raw: Mapping[str, Any]) -> ModelConfig:
    family = family_of((raw.get("architectures") or [None])[0])
    described = family_named(family)
    try:
        if raw.get("quantization_config"):
            method = raw["quantization_config"].get("quant_method")
            raise ModelError(f"safetensors quantised by {method!r} are not supported; GGUF files are")
        text = {**described.folder_defaults, **raw, **(raw.get("text_config") or {})}
        return ModelConfig(family=family, **(_common_fields(text) | dict(described.folder_fields(text))))
    except MALFORMED as error:
        raise ModelError(f"config.json lacks or mistypes {error}") from error


def _common_fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    rope = raw.get("rope_parameters") or {}
    rope = rope.get("full_attention", rope)
    activation = raw.get("hidden_activation") or raw.get("hidden_act", "silu")
    if raw.get("use_sliding_window") or rope.get("partial_rotary_factor", 1) != 1:
        raise ModelError("sliding windows or partial rotations are not supported in this architecture")
    return {
        "hidden": raw["hidden_size"],
        "layers": checked_layers(raw["num_hidden_layers"]),
        "heads": raw["num_attention_heads"],
        "kv_heads": raw.get("num_key_value_heads") or raw["num_attention_heads"],
        "head_dim": raw.get("head_dim") or raw["hidden_size"] // raw["num_attention_heads"],
        "intermediate": raw["intermediate_size"],
        "vocab": raw["vocab_size"],
        "context": raw["max_position_embeddings"],
        "norm_eps": raw["rms_norm_eps"],
        "rope_theta": rope.get("rope_theta") or raw.get("rope_theta", 10000.0),
        "tied": bool(raw.get("tie_word_embeddings", False)),
        "activation": _ACTIVATIONS.get(activation, activation),
        **_rope_scaling(raw.get("rope_scaling") or rope),
    }


def _rope_scaling(raw: Mapping[str, Any]) -> dict[str, Any]:
    kind = raw.get("rope_type", raw.get("type", "default"))
    if kind == "default":
        return {}
    if kind == "linear":
        return {"rope_factor": float(raw["factor"])}
    if kind != "llama3":
        raise ModelError(f"rope scaling {kind!r} is not supported")
    scaling = RopeScaling(
        factor=raw["factor"],
        low_freq_factor=raw["low_freq_factor"],
        high_freq_factor=raw["high_freq_factor"],
        original_context=raw["original_max_position_embeddings"],
    )
    return {"rope_scaling": scaling}


def _tokenizer(path: Path, settings: Mapping[str, Any], rows: int) -> Tokenizer:
    raw = _read_json(path)
    # Small Gemmas ship their big sisters' tokenizer, with a token for images that they have no row for.
    raw["added_tokens"] = [token for token in raw.get("added_tokens") or () if token["id"] < rows]
    try:
        backend = tokenizers.Tokenizer.from_str(json.dumps(raw))
    except Exception as error:  # the library raises bare Exception
        raise ModelError(f"cannot read {path}: {error}") from error
    backend.no_truncation()
    backend.no_padding()
    specials = frozenset(token["id"] for token in raw["added_tokens"] if token.get("special"))
    decoder = json.dumps(raw.get("decoder"))
    if "ByteLevel" not in decoder and "ByteFallback" not in decoder:
        raise ModelError(f"{path}: its decoder is neither byte-level nor SentencePiece with byte fallback")
    bos = _bos_id(backend, settings)
    return Tokenizer(backend, byte_level="ByteLevel" in decoder, specials=specials, bos_id=bos)


def _bos_id(backend: tokenizers.Tokenizer, settings: Mapping[str, Any]) -> int | None:
    """Find out whether texts begin with a begin token: by the settings, else by what the tokenizer puts there."""
    bos: int | None = backend.token_to_id(_token_text(settings.get("bos_token")) or "")
    put_there = backend.encode("", add_special_tokens=True).ids[:1] == [bos]
    return bos if settings.get("add_bos_token", put_there) else None


def _weights(path: Path, gain_offset: float) -> Weights:
    index = path / "model.safetensors.index.json"
    if index.is_file():
        files = sorted({path / Path(name).name for name in _read_json(index).get("weight_map", {}).values()})
    else:
        files = [path / "model.safetensors"]
    stored: dict[str, StoredWeight] = {}
    for file in files:
        try:
            with safe_open(file, framework="pt") as opened:
                for name in opened.keys():  # noqa: SIM118  (no mapping)
                    offset = gain_offset if name.endswith("norm.weight") else 0.0
                    shape = tuple(opened.get_slice(name).get_shape())
                    stored[_public_name(name)] = StoredWeight(shape, partial(_read, file, name, offset))
        except (OSError, SafetensorError) as error:
            raise ModelError(f"cannot read {file}: {error}") from error
    unused = (*_NOT_TEXT, "rotary_emb.")
    return Weights({name: weight for name, weight in stored.items() if not any(part in name for part in unused)})


def _public_name(name: str) -> str:
    """Take the text part's prefix off, of which image-and-text models have had two spellings."""
    if name.startswith("language_model."):
        return name.removeprefix("language_model.")
    return name.replace("model.language_model.", "model.", 1)


def _read(file: Path, name: str, offset: float) -> Matrix:
    with safe_open(file, framework="pt") as opened:
        tensor = opened.get_tensor(name)
    return Matrix.of(tensor.float() + offset if offset else tensor)


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
