"""Gemma 3 270M through the native kernels: windows, head norms, post norms, Q4_K, Q5_0, Q6_K and Q8_0 weights."""

from pathlib import Path

import pytest

from engine.config import EngineConfig
from engine.native.library import Library
from engine.sampling import SamplingParams
from tests.engine import tiny
from tests.engine.models import test_gemma3
from tests.engine.native.stepping import Options, native_runner, schedulable

pytestmark = pytest.mark.slow

gemma = test_gemma3.gemma


def test_all_greedy_answers_equal_the_reference(library: Library, gemma: Path) -> None:
    config, params = EngineConfig(kv_tokens=4096), SamplingParams(max_tokens=32, temperature=0)
    runner = native_runner(library, gemma, Options(block_size=16))
    prompts = [tuple(item["prompt_ids"]) for item in test_gemma3.ITEMS]
    sequences = [tiny.new_sequence(seq_id, prompt, params) for seq_id, prompt in enumerate(prompts)]
    found = tiny.generate(schedulable(runner), config, sequences)
    assert found == [item["greedy_ids"] for item in test_gemma3.ITEMS]
