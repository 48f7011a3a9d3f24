"""The GPU benchmark runs where there is no GPU, on a tiny model, and says what it would say there."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bench.gpu.models import SHAPES, open_model, parameters, random_weights
from bench.gpu.peers import hf_config
from bench.gpu.serving import prompts_of
from engine.models.read_decoder import read_decoder

ROOT = Path(__file__).resolve().parents[2]


def test_the_requests_are_those_of_nano_vllm_s_benchmark() -> None:
    asked = prompts_of(256, 100, 1024, 10000)
    assert sum(tokens for _, tokens in asked) == 133_966
    assert sum(len(prompt) for prompt, _ in asked) == 142_827


def test_a_drawn_model_is_whole() -> None:
    config = SHAPES["tiny"]
    weights = read_decoder(config, random_weights(config))
    assert len(weights.layers) == config.layers
    assert open_model("tiny").tokenizer.piece(5) == b""


@pytest.mark.parametrize(("shape", "billions"), [("qwen3-0.6b", 0.6), ("llama3-8b", 7.5)])
def test_parameters_are_counted(shape: str, billions: float) -> None:
    assert parameters(SHAPES[shape]) == pytest.approx(billions * 1e9, rel=0.02)


def test_peers_get_the_shape_as_they_know_it() -> None:
    found = hf_config(SHAPES["qwen3-0.6b"])
    assert (found["architectures"], found["head_dim"]) == (["Qwen3ForCausalLM"], 128)


@pytest.mark.slow
def test_it_runs_on_the_cpu_and_writes_its_report(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.gpu", "--device", "cpu", "--tiny", "--json", "--out", str(tmp_path)]
    done = subprocess.run(
        [*command, "--parts", "throughput", "steps", "first_token"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout)
    assert json.loads((tmp_path / "bench_gpu.json").read_text("utf-8")) == report
    for part in ("sampled", "greedy"):
        assert report["throughput"][part]["output_tokens"] == report["throughput"][part]["wanted_tokens"]
    (steps,) = report["steps"].values()
    assert [len(steps["decode"]), len(steps["prefill"])] == [2, 2]
    assert all(one["floor_over_step"] > 0 for one in steps["decode"] + steps["prefill"])
    assert report["first_token"]["cached_tokens"] == report["first_token"]["prefix_tokens"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_device_it_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.gpu", "--device", "cuda:0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "there is no CUDA device" in done.stderr
