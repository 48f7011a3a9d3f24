"""The GPU's decoder computes what the CPU's does, family by family; here in fp32 and on the CPU."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from engine.cuda.decoder import DeviceDecoder, Placement
from engine.cuda.row_ops import TorchRowOps
from engine.loader import open_checkpoint
from engine.models import MODELS
from engine.models.read_decoder import read_decoder
from tests.engine import tiny

IDS = [int(token) for token in torch.randint(0, 260, (90,), generator=torch.Generator().manual_seed(5))]


def build(folder: Path, dtype: torch.dtype) -> DeviceDecoder:
    checkpoint = open_checkpoint(folder)
    config = checkpoint.config
    ops = TorchRowOps(config.norm_eps, dtype, config.activation)
    with torch.inference_mode():
        weights = read_decoder(config, checkpoint.weights)
        return DeviceDecoder.build(config, weights, ops, Placement("cpu", dtype))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", MODELS)
def test_every_family_gives_the_same_logits(family: str, tied: bool, tmp_path: Path) -> None:
    config = tiny.small_config(kv_tokens=1024)
    folder = tiny.write_folder(tmp_path, tiny.Shape(family=family, tied=tied))
    _, runner = tiny.build_runner(folder, config)
    expected = tiny.engine_logits(runner, config, IDS)
    tiny.poison(runner.kv)
    model = build(folder, torch.float32)
    found = tiny.engine_logits(SimpleNamespace(model=model, kv=runner.kv, attention=runner.attention), config, IDS)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert (model.head is model.embedding) == tied


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("family", MODELS)
def test_half_precision_stays_close(family: str, dtype: torch.dtype, tmp_path: Path) -> None:
    config = tiny.small_config(kv_tokens=1024)
    folder = tiny.write_folder(tmp_path, tiny.Shape(family=family))
    _, runner = tiny.build_runner(folder, config)
    expected = tiny.engine_logits(runner, config, IDS)
    half = tiny.build_runner(folder, config, kv_dtype="bf16" if dtype == torch.bfloat16 else "fp16")[1]
    found = tiny.engine_logits(
        SimpleNamespace(model=build(folder, dtype), kv=half.kv, attention=half.attention), config, IDS
    )
    assert found.dtype == torch.float32
    assert (found - expected).abs().mean() < 0.02 * expected.abs().mean()
