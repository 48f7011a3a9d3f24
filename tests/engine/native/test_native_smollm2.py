"""The packaged model through the native kernels says exactly what Hugging Face's fp32 implementation says."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.config import EngineConfig
from engine.native.library import Library
from engine.native.runner import NativeRunner
from engine.packaged import packaged_model
from engine.sampling import SamplingParams
from tests.engine import tiny
from tests.engine.native.stepping import Options, Text, logits_at, native_runner, schedulable

pytestmark = pytest.mark.slow

REFERENCE: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data" / "engine_reference.json").read_text())
ITEMS: list[dict[str, Any]] = REFERENCE["items"]
CONFIG = EngineConfig(kv_tokens=4096, max_running=20)
GREEDY = SamplingParams(max_tokens=32, temperature=0)


@pytest.fixture(scope="module")
def runner(library: Library) -> NativeRunner:
    return native_runner(library, packaged_model(), Options(block_size=16))


def answers(runner: NativeRunner, items: list[dict[str, Any]]) -> list[list[int]]:
    prompts = [tuple(item["prompt_ids"]) for item in items]
    sequences = [tiny.new_sequence(seq_id, prompt, GREEDY) for seq_id, prompt in enumerate(prompts)]
    return tiny.generate(schedulable(runner), CONFIG, sequences)


def test_all_greedy_answers_equal_the_reference(runner: NativeRunner) -> None:
    found = answers(runner, ITEMS)
    assert found == [item["greedy_ids"] for item in ITEMS]
    assert answers(runner, ITEMS[3:4]) == found[3:4]


def test_first_step_log_probabilities_are_those_of_fp32(runner: NativeRunner) -> None:
    for item in ITEMS:
        ids = item["prompt_ids"]
        logprobs = logits_at(runner, Text(ids), [len(ids)])[len(ids)].log_softmax(-1)
        for token_id, expected in item["first_step_top5"]:
            assert float(logprobs[token_id]) == pytest.approx(expected, abs=1e-3)


def test_bits_do_not_depend_on_the_cut(runner: NativeRunner) -> None:
    ids = ITEMS[0]["prompt_ids"]
    ends = [1, 5, len(ids) - 1, len(ids)]
    one_by_one = logits_at(runner, Text(ids), range(1, len(ids) + 1))
    found = logits_at(runner, Text(ids, order=1), ends)
    assert all(torch.equal(found[end], one_by_one[end]) for end in ends)
    # Every weight once, as the file has them: 66.4 MB of layers, 30.1 MB of embedding and head.
    assert runner.weight_bytes == pytest.approx(96.4e6, rel=0.01)
