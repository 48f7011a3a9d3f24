"""Long texts: our logits are Hugging Face transformers' within float tolerance."""

from pathlib import Path

import pytest
import torch

from engine.config import EngineConfig
from engine.loader import Weights, open_checkpoint
from engine.packaged import packaged_model
from tests.engine import tiny

pytestmark = pytest.mark.slow

TEXT = "The history of the lighthouse, told by its keepers, begins in 1834 with a storm; née 🙂 or not. "


def hugging_face_logits(
    config: dict[str, object], weights: dict[str, torch.Tensor], ids: list[int]
) -> torch.Tensor:
    """Every position's logits by transformers, fp32, eager attention."""
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(**config, attn_implementation="eager")).eval()
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert set(missing) <= {"lm_head.weight"}
    assert not unexpected
    model.tie_weights()
    with torch.inference_mode():
        logits: torch.Tensor = model(torch.tensor([ids])).logits[0]
    return logits


@pytest.mark.parametrize(
    "shape",
    [
        tiny.Shape(kv_heads=4, tied=False),
        tiny.Shape(kv_heads=2),
        tiny.Shape(kv_heads=1, layers=3),
        tiny.Shape(rope="llama3"),
    ],
    ids=["mha", "gqa", "mqa", "llama3"],
)
def test_tiny_models(tmp_path: Path, shape: tiny.Shape) -> None:
    config = tiny.small_config(kv_tokens=1024)
    checkpoint, runner = tiny.build_runner(tiny.write_folder(tmp_path, shape), config)
    ids = checkpoint.tokenizer.encode(TEXT * 12)[:700]
    weights = tiny.random_weights(shape, checkpoint.config.vocab)
    expected = hugging_face_logits(tiny.hf_config(shape, checkpoint.config.vocab), weights, ids)
    found = tiny.engine_logits(runner, config, ids)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=2e-3)


def half_split(weights: Weights, name: str) -> torch.Tensor:
    """Read a weight of the packaged model as Hugging Face has it: rotary pairs apart."""
    stored = weights._stored[name]
    dense = stored.read().dense().view(stored.shape)
    heads = {"q_proj.weight": 9, "k_proj.weight": 3}.get(name.rpartition("self_attn.")[2])
    if heads is None:
        return dense
    return dense.view(heads, -1, 2, dense.shape[1]).transpose(1, 2).reshape(dense.shape)


def test_smollm2_on_the_dequantised_weights() -> None:
    config = EngineConfig(kv_tokens=1024, weights="fp32")
    names = open_checkpoint(packaged_model()).weights
    weights = {name: half_split(names, name) for name in tuple(names._stored)}
    checkpoint, runner = tiny.build_runner(packaged_model(), config)
    shape = checkpoint.config
    ids = checkpoint.tokenizer.encode(TEXT * 30)[:560]
    assert len(ids) == 560
    hf = {
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
    expected = hugging_face_logits(hf, weights, ids).log_softmax(-1)
    found = tiny.engine_logits(runner, config, ids).log_softmax(-1)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=5e-3)
