"""The whole engine without HTTP: scheduler, runner, sampler."""

import random
import time
from statistics import median
from typing import Any

from engine.core import Core
from engine.detokenizer import OutputText
from engine.metrics import Metrics
from engine.sampling import SamplingParams
from engine.sequence import Sequence
from engine.wiring import Loaded, build_core


class Load:
    """A loaded model behind a scheduler."""

    def __init__(self, loaded: Loaded) -> None:
        self.core: Core = build_core(loaded, Metrics())
        self._next_id = 0

    def add(self, ids: list[int], max_tokens: int, temperature: float) -> Sequence:
        """Queue a prompt."""
        params = SamplingParams(max_tokens=max_tokens, temperature=temperature, ignore_eos=True)
        made = Sequence(
            self._next_id, 0, tuple(ids), params, self._next_id, OutputText(()), arrival_s=time.monotonic()
        )
        self._next_id += 1
        self.core.add(made)
        return made

    def run_out(self) -> int:
        """Step until all is answered; return the steps it took."""
        steps = 0
        while self.core.has_work:
            self.core.step()
            steps += 1
        return steps


def prompts_of(requests: int, shortest: int, longest: int, ids: int) -> list[tuple[list[int], int]]:
    """Draw prompts and answer lengths as nano-vllm's benchmark does: 256 requests ask for 133,966 tokens."""
    draw = random.Random(0)
    prompts = [[draw.randint(0, ids) for _ in range(draw.randint(shortest, longest))] for _ in range(requests)]
    return [(prompt, draw.randint(shortest, longest)) for prompt in prompts]


def throughput(load: Load, asked: list[tuple[list[int], int]], temperature: float) -> dict[str, Any]:
    """Answer everything at once."""
    load.add(asked[0][0][:16], 8, temperature)
    load.run_out()
    began = time.perf_counter()
    sequences = [load.add(prompt, tokens, temperature) for prompt, tokens in asked]
    steps = load.run_out()
    took_s = time.perf_counter() - began
    answered = sum(len(one.output_ids) for one in sequences)
    return {
        "requests": len(asked),
        "prompt_tokens": sum(len(prompt) for prompt, _ in asked),
        "output_tokens": answered,
        "wanted_tokens": sum(tokens for _, tokens in asked),
        "temperature": temperature,
        "seconds": took_s,
        "steps": steps,
        "output_tokens_per_s": answered / took_s,
        "preemptions": sum(one.num_preemptions for one in sequences),
    }


def first_token(load: Load, prefix: int, tail: int, rounds: int, ids: int) -> dict[str, Any]:
    """Time the first token behind a prefix nobody has seen, and behind one that is cached."""
    draw = random.Random(1)
    cold: list[float] = []
    hit: list[float] = []
    cached = 0
    for _ in range(rounds + 1):
        head = [draw.randint(0, ids) for _ in range(prefix)]
        for kept in (cold, hit):
            began = time.perf_counter()
            one = load.add(head + [draw.randint(0, ids) for _ in range(tail)], 1, 0.0)
            load.run_out()
            kept.append(time.perf_counter() - began)
            cached = one.prefix.hit_tokens if one.prefix is not None else 0
    cold_s, hit_s = median(cold[1:]), median(hit[1:])
    return {
        "prefix_tokens": prefix,
        "tail_tokens": tail,
        "cached_tokens": cached,
        "cold_ms": 1e3 * cold_s,
        "hit_ms": 1e3 * hit_s,
        "hit_over_cold": hit_s / cold_s,
    }
