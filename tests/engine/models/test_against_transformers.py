"""Long texts: our logits are Hugging Face transformers' within float tolerance."""

import json
from itertools import product
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.config import EngineConfig
from engine.loader import Weights, open_checkpoint
from engine.models import MODELS
from engine.packaged import packaged_model
from tests.engine import tiny

pytestmark = pytest.mark.slow

TEXT = "The history of the lighthouse, told by its keepers, begins in 1834 with a storm; née 🙂 or not. "


def hugging_face_logits(folder: Path, ids: list[int]) -> torch.Tensor:
    """Every position's logits by transformers, fp32, eager attention."""
    from transformers import AutoModelForCausalLM

    model, report = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    assert not report["unexpected_keys"]
    assert set(report["missing_keys"]) <= {"lm_head.weight"}
    with torch.inference_mode():
        logits: torch.Tensor = model.eval()(torch.tensor([ids])).logits[0]
    return logits


@pytest.mark.parametrize(
    "shape",
    [
        tiny.Shape(kv_heads=4, tied=False),
        tiny.Shape(kv_heads=2),
        tiny.Shape(kv_heads=1, layers=3),
        tiny.Shape(rope="llama3"),
        tiny.Shape(rope="linear"),
        tiny.Shape(family="qwen2"),
        tiny.Shape(family="qwen2", kv_heads=1, tied=False),
        tiny.Shape(family="qwen3", head_dim=32),
        tiny.Shape(family="gemma3", layers=7, window=100),
        tiny.Shape(family="gemma3", layers=7, window=9, rope="linear", kv_heads=1),
    ],
    ids=["mha", "gqa", "mqa", "llama3", "linear", "qwen2", "qwen2-mqa", "qwen3", "gemma3", "gemma3-linear"],
)
def test_tiny_models(tmp_path: Path, shape: tiny.Shape) -> None:
    """Prefill in chunks, then one token at a time, over a text longer than any window."""
    config = tiny.small_config(kv_tokens=1024)
    folder = tiny.write_folder(tmp_path, shape)
    checkpoint, runner = tiny.build_runner(folder, config)
    tiny.poison(runner.kv)
    ids = checkpoint.tokenizer.encode(TEXT * 12)[:700]
    expected = hugging_face_logits(folder, ids)
    found = tiny.engine_logits(runner, config, ids)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("family", "rope"), [*product(MODELS, ("default", "linear")), ("llama", "llama3"), ("qwen2", "llama3")]
)
def test_the_config_is_the_same_as_transformers_writes_it(tmp_path: Path, family: str, rope: str) -> None:
    """Releases differ in where they keep rotary settings and layer kinds."""
    from transformers import AutoConfig

    folder = tiny.write_folder(tmp_path, tiny.Shape(family=family, layers=7, rope=rope))
    written = open_checkpoint(folder).config
    AutoConfig.from_pretrained(folder).save_pretrained(folder)
    assert "rope_parameters" in (folder / "config.json").read_text()
    assert open_checkpoint(folder).config == written


@pytest.mark.parametrize("prefix", ["language_model.model.", "model.language_model."])
def test_the_text_part_of_an_image_model_is_found(tmp_path: Path, prefix: str) -> None:
    """Both spellings that Gemma 3's larger checkpoints have had."""
    shape = tiny.Shape(family="gemma3", layers=7)
    plain = tiny.write_folder(tmp_path / "plain", shape)
    whole = tiny.write_folder(tmp_path / "whole", shape)
    raw = json.loads((whole / "config.json").read_text())
    raw = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": raw | {"architectures": None}}
    (whole / "config.json").write_text(json.dumps(raw))
    weights = load_file(whole / "model.safetensors")
    renamed = {name.replace("model.", prefix, 1): weight for name, weight in weights.items()}
    extra = {
        "model.vision_tower.patch": torch.ones(2),
        "multi_modal_projector.mm_soft_emb_norm.weight": torch.ones(2),
    }
    save_file(renamed | extra, whole / "model.safetensors")
    config = tiny.small_config()
    ids = list(range(5, 45))
    found = [tiny.engine_logits(tiny.build_runner(path, config)[1], config, ids) for path in (plain, whole)]
    assert torch.equal(found[0], found[1])


def half_split(weights: Weights, name: str) -> torch.Tensor:
    """Read a weight of the packaged model as Hugging Face has it: rotary pairs apart."""
    stored = weights._stored[name]
    dense = stored.read().dense().view(stored.shape)
    heads = {"q_proj.weight": 9, "k_proj.weight": 3}.get(name.rpartition("self_attn.")[2])
    if heads is None:
        return dense
    return dense.view(heads, -1, 2, dense.shape[1]).transpose(1, 2).reshape(dense.shape)


def test_smollm2_on_the_dequantised_weights(tmp_path: Path) -> None:
    config = EngineConfig(kv_tokens=1024, weights="fp32")
    names = open_checkpoint(packaged_model()).weights
    weights = {name: half_split(names, name) for name in tuple(names._stored)}
    checkpoint, runner = tiny.build_runner(packaged_model(), config)
    shape = checkpoint.config
    ids = checkpoint.tokenizer.encode(TEXT * 30)[:560]
    assert len(ids) == 560
    hf = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "intermediate_size": shape.intermediate,
        "vocab_size": shape.vocab,
        "max_position_embeddings": shape.context,
        "rms_norm_eps": shape.norm_eps,
        "rope_theta": shape.rope_theta,
        "tie_word_embeddings": True,
    }
    (tmp_path / "config.json").write_text(json.dumps(hf))
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    expected = hugging_face_logits(tmp_path, ids).log_softmax(-1)
    found = tiny.engine_logits(runner, config, ids).log_softmax(-1)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=5e-3)
