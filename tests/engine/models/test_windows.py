"""A sliding-window model behind the scheduler: windows move on, blocks come back, prefixes are shared."""

import pytest
import torch

from engine.kv.contract import NULL_BLOCK
from engine.loader import Checkpoint
from engine.pool import new_kv
from engine.runner import Runner
from engine.sampling import SamplingParams
from engine.sequence import Sequence
from engine.work import Plan
from tests.engine import tiny

SHAPE = tiny.Shape(family="gemma3", layers=7, window=10)
CONFIG = tiny.small_config(max_running=3)
PROMPTS = [tuple(range(5, 70)), (*range(5, 61), 200, 201, 202), tuple(range(80, 91))]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkpoint, Runner]:
    return tiny.build_runner(tiny.write_folder(tmp_path_factory.mktemp("gemma"), SHAPE), CONFIG)


@pytest.fixture(scope="module")
def expected(loaded: tuple[Checkpoint, Runner]) -> list[list[int]]:
    """Each answer alone, from a pool nobody used before."""
    return [tiny.generate(loaded[1], CONFIG, [one])[0] for one in sequences()]


def sequences() -> list[Sequence]:
    params = SamplingParams(max_tokens=30, temperature=0)
    return [tiny.new_sequence(seq_id, prompt, params) for seq_id, prompt in enumerate(PROMPTS)]


def test_answers_are_those_of_the_whole_text(loaded: tuple[Checkpoint, Runner], expected: list[list[int]]) -> None:
    checkpoint, runner = loaded
    tiny.poison(runner.kv)
    for prompt, answer in zip(PROMPTS, expected, strict=True):
        ids = [*prompt, *answer]
        logits = tiny.engine_logits(runner, CONFIG, ids)[len(prompt) - 1 : -1]
        chosen = logits.gather(1, torch.tensor(answer).unsqueeze(1))[:, 0]
        assert bool((chosen >= logits.amax(1) - 1e-3).all())
    assert [group.window for group in checkpoint.config.kv_groups] == [None, 10]


def test_blocks_behind_the_window_are_given_back_while_it_runs(
    loaded: tuple[Checkpoint, Runner], expected: list[list[int]]
) -> None:
    """sglang#25805, vllm-mlx#380: freed once, and nobody sees what they held before."""
    _, runner = loaded
    tiny.poison(runner.kv)
    kv = new_kv(CONFIG, tuple(pool.group for pool in runner.kv.pools))
    holes: list[int] = []
    run = runner.run

    def watched(plan: Plan) -> torch.Tensor:
        holes.extend(item.sequence.tables[1].count(NULL_BLOCK) for item in plan.work)
        return run(plan)

    runner.run = watched  # type: ignore[method-assign]
    try:
        assert tiny.generate(runner, CONFIG, sequences(), kv) == expected
    finally:
        del runner.run
    assert max(holes) > 15


def test_a_shared_prefix_gives_the_same_answer(
    loaded: tuple[Checkpoint, Runner], expected: list[list[int]]
) -> None:
    """llama.cpp#21749, vllm#57610: window models may use cached prefixes too, wherever prompts part."""
    _, runner = loaded
    tiny.poison(runner.kv)
    kv = new_kv(CONFIG, tuple(pool.group for pool in runner.kv.pools))
    for _ in range(2):
        for one, answer in zip(sequences(), expected, strict=True):
            assert tiny.generate(runner, CONFIG, [one], kv) == [answer]
    again = sequences()[0]
    assert tiny.generate(runner, CONFIG, [again], kv) == [expected[0]]
    assert again.prefix is not None
    assert again.prefix.hit_tokens >= CONFIG.chunk_tokens


def test_a_crowded_pool_preempts_and_gives_the_same_answers(
    loaded: tuple[Checkpoint, Runner], expected: list[list[int]]
) -> None:
    _, runner = loaded
    tiny.poison(runner.kv)
    tight = tiny.small_config(max_running=3, kv_tokens=128)
    kv = new_kv(tight, tuple(pool.group for pool in runner.kv.pools))
    crowd = sequences()
    assert tiny.generate(runner, tight, crowd, kv) == expected
    assert sum(one.num_preemptions for one in crowd) > 0
