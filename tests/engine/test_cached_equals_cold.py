"""A cached prompt gives the same bits as a cold one, whether the kernels mind where a prompt is cut or not."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from engine.config import EngineConfig
from engine.core import StepRunner
from engine.kv.wishes import CacheWishes
from engine.loader import open_checkpoint
from engine.models.read_decoder import read_decoder
from engine.native.build import built_library
from engine.pool import new_kv
from engine.runner import RunnerSpec
from engine.runners import find_kernels
from engine.sampling import SamplingParams
from engine.scheduler import Scheduler
from engine.sequence import Sequence
from tests.engine import tiny

RUNNERS = ["torch fp16", "torch fp32", "native fp32"]


class Bench:
    """A model that answers prompts one after the other or together, and remembers every row of logits."""

    def __init__(self, folder: Path, kind: str, config: EngineConfig) -> None:
        name, weights = kind.split()
        if name == "native" and built_library() is None:
            pytest.skip("the native kernels are not built: python -m engine.native")
        self.config = config
        self.checkpoint = open_checkpoint(folder)
        model = self.checkpoint.config
        self.kv = new_kv(config, model.kv_groups)
        spec = RunnerSpec(weights, self.kv.num_blocks, config.block_size)
        kernels = find_kernels(name, model, spec.kv_dtype)
        decoder = read_decoder(model, self.checkpoint.weights)
        self.runner: StepRunner = kernels.runner(spec, decoder, 1, self.kv.saved)
        self.scheduler = Scheduler(config, self.kv, 1024, self.runner.any_chunks)
        self.rows: dict[int, list[torch.Tensor]] = {}
        self._next_id = 0

    def add(self, prompt: tuple[int, ...], answer: int = 6, salt: str = "") -> Sequence:
        """Queue a prompt."""
        one = tiny.new_sequence(self._next_id, prompt, SamplingParams(max_tokens=answer, temperature=0))
        one.cache = CacheWishes(salt)
        self._next_id += 1
        self.scheduler.add(one)
        return one

    def step(self) -> None:
        """Compute one step and choose the best tokens."""
        plan = self.scheduler.plan(0.0)
        logits = self.runner.run(plan)
        self.scheduler.computed(plan, 0.0)
        for row, item in enumerate(item for item in plan.work if item.samples):
            one = item.sequence
            self.rows.setdefault(one.seq_id, []).append(logits[row].clone())
            one.output_ids.append(int(logits[row].argmax()))
            if len(one.output_ids) == one.params.max_tokens:
                self.scheduler.finish(one, 0.0)
        self.scheduler.check()

    def answer(self, prompt: tuple[int, ...], answer: int = 6) -> tuple[Sequence, torch.Tensor]:
        """Run one prompt to its end; its rows of logits."""
        one = self.add(prompt, answer)
        while self.scheduler.has_work:
            self.step()
        return one, torch.stack(self.rows.pop(one.seq_id))


def prompt_of(seed: int, count: int) -> tuple[int, ...]:
    dice = random.Random(seed)
    return tuple(dice.randrange(3, 259) for _ in range(count))


@pytest.fixture(params=RUNNERS)
def both(request: pytest.FixtureRequest, tiny_folder: Path) -> Callable[..., tuple[Bench, Bench]]:
    """Makes an engine with a prefix cache and one without."""

    def make(**changes: object) -> tuple[Bench, Bench]:
        config = tiny.small_config(**{"kv_tokens": 1024} | changes)
        cold = tiny.small_config(**{"kv_tokens": 1024, "prefix_cache": False} | changes)
        return Bench(tiny_folder, request.param, config), Bench(tiny_folder, request.param, cold)

    return make


@pytest.mark.parametrize("length", [1, 3, 4, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65])
def test_the_same_prompt_again(both: Callable[..., tuple[Bench, Bench]], length: int) -> None:
    """llama.cpp#18776, nano-vllm#144: at and around every edge of blocks and chunks."""
    cached, cold = both()
    prompt = prompt_of(1, length)
    _, expected = cold.answer(prompt)
    for _ in range(3):
        one, rows = cached.answer(prompt)
        assert torch.equal(rows, expected)
    assert one.prefix is not None
    whole = cached.config.block_size if cached.runner.any_chunks else cached.config.chunk_tokens
    assert one.prefix.hit_tokens >= (length - 1) // whole * whole


def test_a_conversation_that_grows(both: Callable[..., tuple[Bench, Bench]]) -> None:
    """Each turn holds the one before, its answer and something new; an answer is found again where it may be."""
    cached, cold = both()
    history, hits = prompt_of(2, 21), []
    for turn in range(6):
        one, rows = cached.answer(history, 11)
        _, expected = cold.answer(history, 11)
        assert torch.equal(rows, expected)
        assert one.prefix is not None
        hits.append(one.prefix.hit_tokens)
        history += (*one.output_ids, *prompt_of(turn, 9))
    assert hits == sorted(hits)
    assert hits[-1] >= 80


def test_prompts_that_part_at_any_place(both: Callable[..., tuple[Bench, Bench]]) -> None:
    """MinivLLM PR#98: what is shared is what would have been computed."""
    cached, cold = both()
    base, dice = prompt_of(3, 90), random.Random(4)
    for number in range(15):
        cut = dice.randrange(1, 90)
        prompt = base[:cut] + prompt_of(number, dice.randrange(1, 30))
        _, rows = cached.answer(prompt, 4)
        _, expected = cold.answer(prompt, 4)
        assert torch.equal(rows, expected), f"prompt {number}, cut at {cut}"


def test_together_and_while_others_still_write(both: Callable[..., tuple[Bench, Bench]]) -> None:
    cached, cold = both(max_running=6)
    base, dice = prompt_of(5, 70), random.Random(6)
    prompts = [base[: dice.randrange(1, 70)] + prompt_of(number, dice.randrange(1, 9)) for number in range(16)]
    entered: list[Sequence] = []
    for prompt in prompts:
        entered.append(cached.add(prompt, 5))
        cached.step()
    while cached.scheduler.has_work:
        cached.step()
    for one in entered:
        _, expected = cold.answer(one.prompt_ids, 5)
        assert torch.equal(torch.stack(cached.rows[one.seq_id]), expected), f"sequence {one.seq_id}"
    assert sum(one.prefix.hit_tokens for one in entered if one.prefix) > 100


def test_under_preemption_the_text_is_the_same(both: Callable[..., tuple[Bench, Bench]]) -> None:
    """Where the cut matters, keys and values that are computed again may differ in their last bits."""
    cached, cold = both(kv_tokens=128, max_running=4)
    prompts = [prompt_of(number % 3, 30 + number) for number in range(5)]
    entered = [cached.add(prompt, 14) for prompt in prompts]
    while cached.scheduler.has_work:
        cached.step()
    assert sum(one.num_preemptions for one in entered) > 0
    for one in entered:
        other, _ = cold.answer(one.prompt_ids, 14)
        assert one.output_ids == other.output_ids


def test_nothing_is_shared_between_tenants(both: Callable[..., tuple[Bench, Bench]]) -> None:
    """vllm#16016: the same salt hits, another one misses."""
    cached, _ = both()
    for salt, hits in (("a", False), ("a", True), ("b", False), ("b", True)):
        one = cached.add(prompt_of(7, 50), 1, salt)
        while cached.scheduler.has_work:
            cached.step()
        assert one.prefix is not None
        assert (one.prefix.hit_tokens > 0) is hits
