"""What choosing one token out of a row of logits costs, and what sorting the whole row would cost.

`python -m bench.sampling --vocab 49152 --json`

Rows are made up: bell-shaped logits with a head of a few likely tokens, as a language model's are. Each setting is
timed row by row, the full sort beside it in the same run; figures are medians in milliseconds. `mask_ms` is a
grammar's part: which tokens may come next inside a JSON object.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from engine.draw import Row, choose
from engine.grammar.contract import GrammarKind, GrammarSpec
from engine.grammar.llguidance_grammar import LlguidanceCompiler
from engine.loader import open_checkpoint
from engine.packaged import packaged_model
from engine.sampling import SamplingParams

SETTINGS = {
    "t0.2_p0.9": SamplingParams(1, temperature=0.2, top_p=0.9),
    "t0.7_p0.95": SamplingParams(1, temperature=0.7, top_p=0.95),
    "t1": SamplingParams(1),
    "t1_p0.9": SamplingParams(1, top_p=0.9),
    "t1_k50": SamplingParams(1, top_k=50),
    "t0.7_minp0.05": SamplingParams(1, temperature=0.7, min_p=0.05),
}
"""The first is the packaged model's default."""

HEAD = 40


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.sampling", description=__doc__)
    parser.add_argument("--vocab", type=int, default=49152)
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    rows = [made_up(seed, options.vocab) for seed in range(options.rows)]
    figures: dict[str, object] = {"vocab": options.vocab, "greedy_ms": milliseconds(rows, np.argmax)}
    for name, params in SETTINGS.items():
        ours = milliseconds(rows, partial(choose, params=params, draw=0.5))
        full = milliseconds(rows, partial(by_full_sort, params=params))
        figures[name] = {"ms": ours, "full_sort_ms": full}
    figures["mask_ms"] = mask_milliseconds(options.rows)
    print(json.dumps(figures) if options.json else json.dumps(figures, indent=2))
    return 0


def made_up(seed: int, vocab: int) -> Row:
    """Logits [V] with a head of likely tokens."""
    generator = np.random.default_rng(seed)
    row = generator.normal(0, 2.0, vocab)
    row[generator.choice(vocab, HEAD, replace=False)] += np.linspace(14, 4, HEAD)
    return row.astype(np.float32)


def milliseconds(rows: Sequence[Row], call: Callable[[Row], object]) -> float:
    """Median time of a call per row."""
    times = []
    for row in rows:
        began = time.perf_counter()
        call(row)
        times.append(time.perf_counter() - began)
    return round(float(np.median(times)) * 1e3, 4)


def by_full_sort(row: Row, params: SamplingParams) -> int:
    """The plain way to the same choice: sort, softmax, cut."""
    order = np.argsort(-row, kind="stable")
    weights = np.exp((row[order].astype(np.float64) - row[order[0]]) / params.temperature)
    if params.top_k:
        weights[params.top_k :] = 0
    running = weights.cumsum()
    kept = running - weights < params.top_p * running[-1]
    kept &= weights >= params.min_p
    running = (weights * kept).cumsum()
    return int(order[int(running.searchsorted(0.5 * running[-1], side="right"))])


def mask_milliseconds(count: int) -> float:
    """Median time of a mask over the packaged model's vocabulary, along random JSON."""
    checkpoint = open_checkpoint(packaged_model())
    compiler = LlguidanceCompiler(checkpoint.tokenizer, checkpoint.eos_ids)
    grammar = compiler.compile(GrammarSpec(GrammarKind.JSON_SCHEMA, '{"type":"object"}', "schema"))
    times = []
    generator = np.random.default_rng(0)
    for _ in range(count):
        began = time.perf_counter()
        allowed = grammar.allowed()
        times.append(time.perf_counter() - began)
        if grammar.finished or not grammar.accept(int(generator.choice(np.flatnonzero(allowed)))):
            break
    return round(float(np.median(times)) * 1e3, 4)


if __name__ == "__main__":
    sys.exit(main())
