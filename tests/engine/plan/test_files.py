"""Shapes read from model folders and GGUF files."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelError
from engine.loader import open_checkpoint
from engine.packaged import packaged_model
from engine.plan.files import config_shape, find_model
from engine.plan.named import find_shape
from engine.plan.shape import Shape
from tests.engine.tiny import Shape as Tiny
from tests.engine.tiny import write_folder

LLAMA: dict[str, Any] = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}
GEMMA: dict[str, Any] = {
    "model_type": "gemma3_text",
    "hidden_size": 640,
    "num_hidden_layers": 18,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "intermediate_size": 2048,
    "vocab_size": 262144,
    "max_position_embeddings": 32768,
    "sliding_window": 512,
}
LITE: dict[str, Any] = {
    "hidden_size": 2048,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 192,
    "intermediate_size": 10944,
    "vocab_size": 102400,
    "max_position_embeddings": 163840,
    "kv_lora_rank": 512,
    "q_lora_rank": None,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "moe_intermediate_size": 1408,
    "first_k_dense_replace": 1,
    "tie_word_embeddings": False,
}
MISTRAL = {**LLAMA, "vocab_size": 32000, "max_position_embeddings": 32768, "sliding_window": 4096}
MIXTRAL = {**MISTRAL, "sliding_window": None, "num_local_experts": 8}
QWEN3: dict[str, Any] = {
    **LLAMA,
    "model_type": "qwen3",
    "num_hidden_layers": 36,
    "head_dim": 128,
    "intermediate_size": 12288,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "sliding_window": None,
}
FALCON: dict[str, Any] = {
    "model_type": "falcon",
    "hidden_size": 4544,
    "num_hidden_layers": 32,
    "num_attention_heads": 71,
    "multi_query": True,
    "vocab_size": 65024,
}


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("llama-3-8b", LLAMA),
        ("gemma-3-270m", GEMMA),
        ("gemma-3-270m", {"text_config": GEMMA, "model_type": "gemma3"}),
        ("deepseek-v2-lite", LITE),
        ("mistral-7b", MISTRAL),
        ("mixtral-8x7b", MIXTRAL),
        ("qwen3-8b", QWEN3),
        ("falcon-7b", FALCON),
    ],
)
def test_a_folders_config_gives_the_published_shape(tmp_path: Path, name: str, raw: dict[str, Any]) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(raw), "utf-8")
    found = find_model(str(folder))
    assert found.shape == find_shape(name)
    assert found.stored_bytes is None


def test_layer_types_say_which_layers_slide_and_which_share() -> None:
    kinds = ["sliding_attention", "full_attention"] * 9
    shape = config_shape({**GEMMA, "layer_types": kinds, "num_kv_shared_layers": 4}, "g")
    assert shape.windows == (512, None) * 9
    assert shape.kv_from == (*range(14), 12, 13, 12, 13)
    assert shape.own_kv == (512, None) * 7
    assert config_shape({**LLAMA, "sliding_window": 9, "use_sliding_window": False}, "q").windows == ()


@pytest.mark.parametrize("written", ["", "[]", "{}", json.dumps({**LLAMA, "hidden_size": "big"})])
def test_a_bad_config_is_one_line(tmp_path: Path, written: str) -> None:
    (tmp_path / "config.json").write_text(written, "utf-8")
    with pytest.raises(ModelError, match=r"config\.json"):
        find_model(str(tmp_path))


def test_a_file_that_is_no_gguf_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUX")
    with pytest.raises(ModelError, match=r"model\.gguf"):
        find_model(str(tmp_path / "model.gguf"))


def test_the_packaged_model_is_read_without_its_weights() -> None:
    found = find_model(str(packaged_model()))
    named = find_shape("smollm2-135m")
    assert found.shape == Shape(**{**_fields(named), "name": packaged_model().name})
    assert found.stored_bytes == 96_576_768


def test_a_folder_counts_the_weights_it_has(tmp_path: Path) -> None:
    write_folder(tmp_path, Tiny())
    found = find_model(str(tmp_path))
    checkpoint = open_checkpoint(tmp_path)
    assert (found.shape.hidden, found.shape.vocab) == (checkpoint.config.hidden, checkpoint.config.vocab)
    assert found.stored_bytes == (tmp_path / "model.safetensors").stat().st_size
    assert 4 * found.shape.parameters == pytest.approx(found.stored_bytes, rel=0.05)


def _fields(shape: Shape) -> dict[str, Any]:
    return {name: getattr(shape, name) for name in Shape.__dataclass_fields__}
