"""Single steps against the card's limits: decode against the bytes it must read, prefill against its products.

Runs the runner alone: no scheduler, no sampling, no text.
"""

import time
from collections.abc import Sequence as Rows
from statistics import median
from typing import Any

import torch

from bench.gpu.limits import Limits, seconds_of, settle
from bench.gpu.models import parameters
from engine.cuda.decoder import DeviceDecoder
from engine.cuda.runner import DeviceRunner
from engine.detokenizer import OutputText
from engine.sampling import SamplingParams
from engine.sequence import Sequence
from engine.work import Plan, Work


def sequence_of(seq_id: int, tokens: int, first_block: int, runner: DeviceRunner, room: int) -> Sequence:
    """Make a prompt whose blocks lie behind `first_block`, with room to grow."""
    made = Sequence(
        seq_id=seq_id,
        sample_index=0,
        prompt_ids=tuple((seq_id * 7919 + position) % runner.model.config.vocab for position in range(tokens)),
        params=SamplingParams(max_tokens=room, temperature=0),
        seed=0,
        output=OutputText(()),
        arrival_s=0.0,
    )
    blocks = -(-(tokens + room) // runner.kv.shape.block_size)
    made.tables = [list(range(first_block, first_block + blocks)) for _ in runner.kv.pools]
    return made


def kv_bytes_read(runner: DeviceRunner, context: int) -> int:
    """Return the bytes of keys and values that one sequence's next token looks at."""
    size = runner.kv.shape.block_size
    return sum(
        runner.kv.block_bytes(group) * min(context, pool.group.window or context) // size
        for group, pool in enumerate(runner.kv.pools)
    )


def decode(runner: DeviceRunner, limits: Limits, batch: int, context: int, steps: int) -> dict[str, Any]:
    """Time decode steps of sequences that have `context` tokens."""
    device, size = runner.kv.shape.device, runner.kv.shape.block_size
    blocks = -(-(context + steps + 8) // size)
    rows = [sequence_of(index, context, index * blocks, runner, steps + 8) for index in range(batch)]
    times = []
    for step in range(steps + 3):
        for sequence in rows:
            sequence.output_ids.append(step)
        plan = Plan(tuple(Work(one, one.num_tokens - 1, 1, one.num_tokens - 1) for one in rows))
        began = time.perf_counter()
        runner.run(plan)
        settle(device)
        times.append(time.perf_counter() - began)
    step_s = median(times[3:])
    assert isinstance(runner.model, DeviceDecoder)
    read = runner.model.weight_bytes + batch * kv_bytes_read(runner, context)
    floor_s = read / limits.bytes_per_s
    return {
        "batch": batch,
        "context": context,
        "step_ms": 1e3 * step_s,
        "graph_ms": _replay_ms(runner, batch, context),
        "floor_ms": 1e3 * floor_s,
        "floor_over_step": floor_s / step_s,
        "tokens_per_s": batch / step_s,
    }


def _replay_ms(runner: DeviceRunner, batch: int, context: int) -> float | None:
    """Time the recording alone, as often as fits in a row; None where there is none."""
    if runner.graphs is None:
        return None
    found = runner.graphs.cache.find(runner.graphs.key(batch, context + 1))
    if found is None:
        return None
    return 1e3 * seconds_of(runner.kv.shape.device, found.replay, 20)


def prefill(runner: DeviceRunner, limits: Limits, tokens: int) -> dict[str, Any]:
    """Time one prompt in one step."""
    device, config = runner.kv.shape.device, runner.model.config
    sequence = sequence_of(0, tokens, 0, runner, 8)
    plan = Plan((Work(sequence, 0, tokens, 0),))
    step_s = seconds_of(device, lambda: runner.run(plan), 3)
    looks = sum(
        tokens * tokens / 2 if group.window is None else tokens * min(tokens, group.window)
        for group in config.kv_groups
        for _ in group.layers
    )
    body = parameters(config) - config.vocab * config.hidden
    flops = 2 * body * tokens + 4 * config.heads * config.head_dim * looks + 2 * config.vocab * config.hidden
    floor_s = flops / limits.flops_per_s
    return {
        "tokens": tokens,
        "step_ms": 1e3 * step_s,
        "floor_ms": 1e3 * floor_s,
        "floor_over_step": floor_s / step_s,
        "tokens_per_s": tokens / step_s,
    }


@torch.inference_mode()
def all_steps(
    runner: DeviceRunner, limits: Limits, batches: Rows[tuple[int, int]], prompts: Rows[int], steps: int
) -> dict[str, Any]:
    """Time every batch and prompt that fits the pool."""
    room = (runner.kv.pools[0].values.shape[1] // runner.kv.shape.block_size - 1) * runner.kv.shape.block_size
    longest = runner.model.config.context
    return {
        "decode": [
            decode(runner, limits, batch, context, steps)
            for batch, context in batches
            if batch * (context + steps + 40) <= room and context + steps + 8 <= longest
        ],
        "prefill": [prefill(runner, limits, tokens) for tokens in prompts if tokens + 8 <= min(room, longest)],
    }
