"""Model folders: the packaged one is found and checked, and what we cannot run is refused by name."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from semantic.errors import ModelError
from semantic.models.folder import (
    BertConfig,
    packaged_embedder,
    read_config,
    read_pooling,
    read_weights,
    verify_packaged,
)

SMALL: dict[str, Any] = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "vocab_size": 30,
    "max_position_embeddings": 12,
}


def _folder(tmp_path: Path, **changes: object) -> Path:
    (tmp_path / "config.json").write_text(json.dumps({**SMALL, **changes}))
    return tmp_path


def test_the_packaged_embedder_is_the_one_that_was_tested() -> None:
    folder = packaged_embedder()
    verify_packaged(folder)
    assert read_config(folder) == BertConfig(384, 6, 12, 1536, 30522, 512, 2, 1e-12)
    assert read_pooling(folder, 512).max_tokens == 256


def test_another_file_is_not_the_packaged_embedder(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other")
    with pytest.raises(ModelError, match="SHA-256"):
        verify_packaged(tmp_path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "roberta"}, "model_type is 'roberta'"),
        ({"hidden_act": "relu"}, "hidden_act"),
        ({"position_embedding_type": "relative_key"}, "absolute"),
        ({"num_attention_heads": 3}, "divide"),
        ({"hidden_size": "8"}, "mistypes"),
        ({"hidden_size": True}, "mistypes"),
        ({"vocab_size": 1 << 40}, "mistypes"),
        ({"layer_norm_eps": None}, "mistypes"),
    ],
)
def test_what_the_graph_does_not_know_is_refused(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        read_config(_folder(tmp_path, **changes))


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00", "[" * 100_000])
def test_a_broken_config_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelError, match=r"config\.json"):
        read_config(tmp_path)


def test_a_broken_weights_file_is_refused(tmp_path: Path) -> None:
    for data in (b"", b"\xff" * 64, b"\x08" + b"\x00" * 7 + b"{}      "):
        (tmp_path / "model.safetensors").write_bytes(data)
        if data.endswith(b"{}      "):
            assert read_weights(tmp_path) == {}
            continue
        with pytest.raises(ModelError, match="cannot read"):
            read_weights(tmp_path)


def test_names_and_types_become_those_of_the_graph(tmp_path: Path) -> None:
    half, whole = np.ones((2, 3), np.float16), np.arange(4)
    save_file(
        {"bert.a.weight": half, "classifier.weight": half, "bert.pooler.dense.weight": half, "ids": whole},
        tmp_path / "model.safetensors",
    )
    found = read_weights(tmp_path)
    assert set(found) == {"a.weight", "head.weight", "head.dense.weight"}
    assert {value.dtype for value in found.values()} == {np.dtype(np.float32)}


def test_pooling_that_the_graph_does_not_know_is_refused(tmp_path: Path) -> None:
    assert read_pooling(tmp_path, 99).kind == "mean"
    (tmp_path / "1_Pooling").mkdir()
    config = tmp_path / "1_Pooling" / "config.json"
    config.write_text(json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}))
    assert read_pooling(tmp_path, 99).kind == "cls"
    config.write_text(json.dumps({"pooling_mode_max_tokens": True}))
    with pytest.raises(ModelError, match="max_tokens"):
        read_pooling(tmp_path, 99)
