"""`python -m bench.engine [--json]`: prefill, decode, first tokens and memory, ours and our peers', in one run."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from bench.engine import http_first_token
from bench.engine.contest import Contestant, Task, measure, python_with, ratio, summary
from engine.packaged import packaged_model

_PREFIX, _TAIL, _VOCAB = 1500, 30, 49000
_PEERS = {
    "llama.cpp": ("bench.engine.llama_cpp_peer", "llama_cpp", frozenset({"prefill", "decode", "cached"})),
    "transformers": ("bench.engine.transformers_peer", "transformers", frozenset({"prefill", "decode"})),
}
_OWN_TASKS = frozenset({"prefill", "decode", "cached", "generate", "generate_uncached"})


def main() -> int:
    """Run it all and print."""
    options = _options()
    model = options.model or packaged_model()
    contestants = _contestants(options, model)
    try:
        rates = measure(contestants, _tasks(options.decode_tokens), options.rounds, _tell)
        memory = {one.name: one.pss_bytes() for one in contestants}
        about = {one.name: one.about for one in contestants}
    finally:
        for one in contestants:
            one.close()
    _tell("first tokens over HTTP")
    with http_first_token.serving(model, options.threads, []) as path:
        first = http_first_token.measure(path, options.rounds, _PREFIX, _TAIL, _VOCAB)
    report = _report(rates, first)
    report |= {"memory_bytes": memory, "contestants": about, "threads": options.threads, "rounds": options.rounds}
    print(json.dumps(report, indent=None if options.json else 2))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.engine", description=__doc__)
    parser.add_argument("--model", type=Path, help="a GGUF file of the Llama family (default: the packaged one)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--decode-tokens", type=int, default=48, help="steps a decode round times")
    parser.add_argument("--peers-python", help="an interpreter that has llama-cpp-python (default: this one)")
    parser.add_argument("--without", action="append", default=[], choices=sorted(_PEERS), help="leave a peer out")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    return parser.parse_args()


def _contestants(options: argparse.Namespace, model: Path) -> list[Contestant]:
    flags = ["--model", str(model), "--threads", str(options.threads)]
    # As the supervisor starts the engine; peers run with their own defaults, which suit them better.
    ours = ["env", "GOMP_SPINCOUNT=3000", sys.executable, "-m", "bench.engine.lamina_side", *flags]
    entered = [Contestant("lamina", ours, _OWN_TASKS)]
    for name, (module, needed, tasks) in _PEERS.items():
        python = python_with(needed, options.peers_python if name == "llama.cpp" else None)
        if name in options.without:
            continue
        if python is None:
            _tell(f"{name} is not installed: left out\n")
            continue
        entered.append(Contestant(name, [python, "-m", module, *flags], tasks))
    return entered


def _tasks(steps: int) -> list[Task]:
    tasks = [Task(f"prefill_{count}", {"task": "prefill", "tokens": count}, count) for count in (512, 2048)]
    for rows in (1, 4, 8):
        asked = {"task": "decode", "sequences": rows, "context": 128, "tokens": steps}
        tasks.append(Task(f"decode_b{rows}", asked, rows * steps))
    tasks.append(Task("cached_tail", {"task": "cached", "prefix": _PREFIX, "tail": _TAIL}, _TAIL))
    tasks.append(Task("generate_200", {"task": "generate", "context": 16, "tokens": 200}, 200))
    uncached = {"task": "generate_uncached", "context": 16, "tokens": 200}
    tasks.append(Task("generate_200_uncached", uncached, 200, rounds=1))
    return tasks


def _report(rates: Mapping[str, Mapping[str, list[float]]], first: Mapping[str, list[float]]) -> dict[str, Any]:
    ratios = {
        name: ratio(rates[name], "lamina", "llama.cpp") for name in ("prefill_512", "prefill_2048", "cached_tail")
    }
    ratios |= {f"decode_b{count}": ratio(rates[f"decode_b{count}"], "lamina", "llama.cpp") for count in (1, 4, 8)}
    shares = [warm / cold for warm, cold in zip(first["cached_s"], first["cold_s"], strict=True)]
    ratios["ttft_cached_over_cold"] = round(median(shares), 4)
    with_cache, without = rates["generate_200"]["lamina"], rates["generate_200_uncached"]["lamina"]
    ratios["kv_cache_speed_up"] = round(median(with_cache) / median(without), 2)
    return {
        "ratios": ratios,
        "tokens_per_s": {name: summary(of) for name, of in rates.items()},
        "http_first_token": {name: round(median(values), 4) for name, values in first.items()},
    }


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
