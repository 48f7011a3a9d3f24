"""The packaged model says what Hugging Face's implementation of it says."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.config import EngineConfig
from engine.loader import Checkpoint
from engine.packaged import SHA256, packaged_model
from engine.runner import Runner
from engine.sampling import SamplingParams
from tests.engine import tiny

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

REFERENCE: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data" / "engine_reference.json").read_text())
ITEMS: list[dict[str, Any]] = REFERENCE["items"]
CONFIG = EngineConfig(kv_tokens=4096, max_running=20)


@pytest.fixture(scope="module")
def loaded() -> tuple[Checkpoint, Runner]:
    return tiny.build_runner(packaged_model(), CONFIG)


def test_prompts_render_and_tokenise_as_the_reference(loaded: tuple[Checkpoint, Runner]) -> None:
    checkpoint, _ = loaded
    assert REFERENCE["sha256"] == SHA256
    assert checkpoint.eos_ids == {REFERENCE["eos_token_id"]}
    assert checkpoint.template is not None
    for item in ITEMS:
        assert checkpoint.template.render(item["messages"]) == item["prompt_text"]
        assert checkpoint.tokenizer.encode(item["prompt_text"]) == item["prompt_ids"]


def test_greedy_ids_equal_the_reference_where_the_margin_allows(loaded: tuple[Checkpoint, Runner]) -> None:
    _, runner = loaded
    greedy = SamplingParams(max_tokens=32, temperature=0)
    sequences = [tiny.new_sequence(seq_id, tuple(item["prompt_ids"]), greedy) for seq_id, item in enumerate(ITEMS)]
    batched = tiny.generate(runner, CONFIG, sequences)
    for item, found in zip(ITEMS, batched, strict=True):
        safe = item["safe_prefix"]
        assert found[:safe] == item["greedy_ids"][:safe], item["messages"][-1]["content"]
    equal = sum(found == item["greedy_ids"] for item, found in zip(ITEMS, batched, strict=True))
    assert equal >= 15, f"only {equal} of {len(ITEMS)} answers equal the reference to the end"
    alone = tiny.new_sequence(0, tuple(ITEMS[3]["prompt_ids"]), greedy)
    assert tiny.generate(runner, CONFIG, [alone]) == [batched[3]]


def test_first_step_log_probabilities_are_close(loaded: tuple[Checkpoint, Runner]) -> None:
    _, runner = loaded
    for item in ITEMS:
        logprobs = tiny.engine_logits(runner, CONFIG, item["prompt_ids"])[-1].log_softmax(-1)
        for token_id, expected in item["first_step_top5"]:
            assert float(logprobs[token_id]) == pytest.approx(expected, abs=0.02)
