"""What a scheduler step costs: `python -m bench.scheduler_step --json`.

Many sequences decode over a full queue of several tenants; there is no model. One step is planning, noting what
was computed and caching it, and the end of a sequence now and then, whose place another one with a fresh prompt
takes; `ends_per_step` says how often. The target is 1 ms at 256 running. Times are of the thread's own, so that a
busy machine lengthens them less.
"""

import argparse
import json
import statistics
import time

from engine.config import EngineConfig
from engine.detokenizer import OutputText
from engine.kv.wishes import CacheWishes
from engine.pool import new_kv
from engine.sampling import SamplingParams
from engine.scheduler import Scheduler
from engine.sequence import Sequence

_PROMPT = 100
_TENANTS = 8
_WARM_STEPS = 100


def measure(running: int, answer: int, steps: int) -> dict[str, float | int]:
    """Time steps in which answers of about so many tokens are made; milliseconds."""
    config = EngineConfig(
        max_running=running, max_waiting=running, kv_tokens=running * 2 * (_PROMPT + answer), prefill_tokens=512
    )
    scheduler = Scheduler(config, new_kv(config), 4096, any_chunks=True)
    next_id, ends, plans, wholes = 0, 0, [], []
    for step in range(_WARM_STEPS + steps):
        while scheduler.num_waiting < running:
            scheduler.add(_sequence(next_id, answer))
            next_id += 1
        began = time.thread_time()
        plan = scheduler.plan(float(step))
        planned = time.thread_time()
        scheduler.computed(plan, float(step))
        for item in plan.work:
            if item.samples:
                item.sequence.output_ids.append(7)
                if len(item.sequence.output_ids) >= item.sequence.params.max_tokens:
                    scheduler.finish(item.sequence, float(step))
                    ends += step >= _WARM_STEPS
        ended = time.thread_time()
        if step >= _WARM_STEPS:
            plans.append(1e3 * (planned - began))
            wholes.append(1e3 * (ended - began))
    return {
        "running": running,
        "ends_per_step": round(ends / steps, 1),
        "plan_ms_median": round(statistics.median(plans), 3),
        "step_ms_min": round(min(wholes), 3),
        "step_ms_median": round(statistics.median(wholes), 3),
        "step_ms_p99": round(statistics.quantiles(wholes, n=100)[98], 3),
    }


def _sequence(seq_id: int, answer: int) -> Sequence:
    prompt = tuple((seq_id * 7919 + position) % 32768 for position in range(_PROMPT))
    params = SamplingParams(max_tokens=1 + (answer // 2 + seq_id * 37 % answer), temperature=0)
    wishes = CacheWishes(salt=f"tenant {seq_id % _TENANTS}")
    return Sequence(seq_id, 0, prompt, params, 0, OutputText(), 0.0, cache=wishes)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--running", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--answer", type=int, nargs="+", default=[1024, 64], help="tokens of an answer")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    options = parser.parse_args()
    found = [measure(running, answer, options.steps) for running in options.running for answer in options.answer]
    if options.json:
        print(json.dumps({"scheduler_step": found}))
        return
    for row in found:
        print("  ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
