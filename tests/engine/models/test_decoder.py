"""Every family in the table computes what the textbook says, whatever way the tokens are cut up."""

from pathlib import Path

import pytest
import torch

from engine.config import WEIGHT_FORMATS
from engine.errors import ModelError
from engine.kernels import LINEARS
from engine.loader import StoredWeight, Weights, open_checkpoint
from engine.loader.matrix import Matrix
from engine.models import MODELS, family_named, family_of
from engine.models.read_decoder import read_decoder
from tests.engine import tiny

SHAPES = {
    "mha": tiny.Shape(kv_heads=4),
    "gqa": tiny.Shape(kv_heads=2, tied=False),
    "mqa": tiny.Shape(kv_heads=1),
    "odd": tiny.Shape(heads=3, kv_heads=3, head_dim=10, hidden=32, intermediate=50),
}
LONG = [int(token) for token in torch.randint(0, 260, (600,), generator=torch.Generator().manual_seed(5))]


@pytest.mark.parametrize("name", MODELS)
def test_a_line_in_the_table_resolves_by_every_name_it_has(name: str) -> None:
    family = family_named(name)
    assert {family_of(spelling) for spelling in (*family.architectures, family.gguf)} == {name}


@pytest.mark.parametrize("name", ["mamba", "Qwen3MoeForCausalLM", "qwen3moe", None])
def test_an_unknown_family_is_refused_by_name(name: str | None) -> None:
    with pytest.raises(ModelError, match=rf"{name!r} is not supported; known: .*Qwen3ForCausalLM"):
        family_of(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_long_text_gives_the_textbook_logits(name: str, tmp_path: Path) -> None:
    shape, config = SHAPES[name], tiny.small_config(kv_tokens=1024)
    checkpoint, runner = tiny.build_runner(tiny.write_folder(tmp_path, shape), config)
    tiny.poison(runner.kv)
    weights = tiny.random_weights(shape, checkpoint.config.vocab)
    expected = tiny.plain_logits(weights, checkpoint.config, LONG)
    found = tiny.engine_logits(runner, config, LONG)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("linear", LINEARS)
@pytest.mark.parametrize("biased", [False, True])
def test_a_linear_gives_a_row_the_same_bits_in_any_company(linear: str, biased: bool) -> None:
    generator = torch.Generator().manual_seed(2)
    weight, rows = torch.randn(70, 48, generator=generator), torch.randn(60, 48, generator=generator)
    with torch.inference_mode():
        bias = torch.randn(70, generator=generator) if biased else None
        apply = LINEARS[linear](weight, bias)
        whole = apply(rows)
        torch.testing.assert_close(whole, rows @ weight.T + (bias if biased else 0), rtol=2e-3, atol=2e-2)
        for size in range(3, 60, 3):
            assert torch.equal(apply(rows[:size]), whole[:size])


def test_the_formats_on_the_command_line_are_those_of_the_table() -> None:
    assert set(WEIGHT_FORMATS) == set(LINEARS)


def test_half_weights_stay_close_to_full_ones(tmp_path: Path) -> None:
    folder = tiny.write_folder(tmp_path)
    full, half = (tiny.small_config(kv_tokens=1024, weights=name) for name in ("fp32", "fp16"))
    exact = tiny.engine_logits(tiny.build_runner(folder, full)[1], full, LONG[:100])
    close = tiny.engine_logits(tiny.build_runner(folder, half)[1], half, LONG[:100])
    assert (exact - close).abs().max() < 0.02 * exact.abs().max()


def test_a_missing_weight_is_named(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tiny.write_folder(tmp_path))
    checkpoint.weights.drop("model.layers.1.mlp.up_proj.weight")
    with pytest.raises(ModelError, match=r"model\.layers\.1\.mlp\.up_proj\.weight is missing"):
        read_decoder(checkpoint.config, checkpoint.weights)


def test_a_left_over_weight_is_named(tmp_path: Path) -> None:
    shape = tiny.Shape()
    config = open_checkpoint(tiny.write_folder(tmp_path, shape)).config
    tensors = {**tiny.random_weights(shape, config.vocab), "model.layers.0.self_attn.q_proj.bias": torch.zeros(64)}
    weights = Weights(
        {
            name: StoredWeight(tuple(tensor.shape), lambda tensor=tensor: Matrix.of(tensor))
            for name, tensor in tensors.items()
        }
    )
    with pytest.raises(ModelError, match=r"left over, such as model\.layers\.0\.self_attn\.q_proj\.bias"):
        read_decoder(config, weights)


def test_a_weight_of_another_shape_is_named(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tiny.write_folder(tmp_path))
    with pytest.raises(ModelError, match=r"model\.norm\.weight has shape \(48,\), expected \(49,\)"):
        checkpoint.weights.take("model.norm.weight", 49)
