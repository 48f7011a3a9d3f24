"""The engine put together over a device's runner; without a GPU the same code runs on the CPU."""

from dataclasses import replace
from pathlib import Path

import pytest

from engine import __main__ as command
from engine.config import GPU_CONFIG, EngineConfig, EngineSpec
from engine.cuda.options import DeviceOptions
from engine.cuda.rehearsal import rehearse
from engine.cuda.runner import DeviceRunner
from engine.wiring import load
from tests.engine import tiny
from tests.engine.attention.pools import DEVICE
from tests.engine.cuda.test_runner import device_runner, sequences

ON_DEVICE = DeviceOptions(DEVICE, dtype="fp32", kv_share=None, attention="sdpa")


def parsed(*arguments: str) -> EngineConfig:
    return command._spec(command._parser().parse_args(["--model", "x", *arguments])).config


def test_a_model_is_loaded_onto_the_device_and_gives_the_same_answers(tmp_path: Path) -> None:
    folder = tiny.write_folder(tmp_path, tiny.Shape(family="gemma3"))
    config = tiny.small_config(max_running=6, runner="torch")
    expected = tiny.generate(load(EngineSpec(folder, "tiny", 2, config)).runner, config, sequences())
    loaded = load(EngineSpec(folder, "tiny", 2, replace(config, device=ON_DEVICE)))
    assert isinstance(loaded.runner, DeviceRunner)
    assert tiny.generate(loaded.runner, config, sequences()) == expected


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="no CUDA device")
def test_the_pool_takes_a_share_of_what_is_left(tmp_path: Path) -> None:
    folder = tiny.write_folder(tmp_path)
    blocks = []
    for share in (0.01, 0.02):
        options = replace(ON_DEVICE, kv_share=share, attention="auto")
        loaded = load(EngineSpec(folder, "tiny", 2, tiny.small_config(device=options)))
        blocks.append(loaded.config.num_blocks)
    assert 1.8 < blocks[1] / blocks[0] < 2.2


@pytest.mark.parametrize("tokens", [20, 90])
def test_a_rehearsal_runs_the_largest_step(tokens: int, tmp_path: Path) -> None:
    runner = device_runner(tiny.write_folder(tmp_path, tiny.Shape(context=40)), attention="sdpa", num_blocks=11)
    rehearse(runner, tokens)


def test_a_gpu_has_other_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parsed("--device", "cpu") == replace(EngineConfig(), sampling=parsed("--device", "cpu").sampling)
    monkeypatch.setattr(command, "visible_devices", lambda: 1)
    found = parsed()
    assert (found.device, found.max_running, found.block_size) == (DeviceOptions(), 256, 32)
    sized = parsed("--kv-tokens", "4096", "--max-running", "7", "--dtype", "fp16", "--cuda-graphs", "off")
    assert (sized.kv_tokens, sized.max_running) == (4096, 7)
    assert sized.device == DeviceOptions(dtype="fp16", kv_share=None, graphs=False)
    assert parsed("--step-tokens", "256", "--prefill-tokens", "128").chunk_tokens == 128
    assert parsed("--device", "cpu").max_running == EngineConfig().max_running
    assert GPU_CONFIG.kv_dtype == "bf16"


def test_a_host_tier_learns_how_fast_the_link_is(tmp_path: Path) -> None:
    folder = tiny.write_folder(tmp_path)
    loaded = load(EngineSpec(folder, "tiny", 2, tiny.small_config(device=ON_DEVICE, host_kv_mb=1)))
    assert loaded.kv.rates.bytes_per_s > 0
