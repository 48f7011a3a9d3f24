"""Error budgets on a stream whose truth is known: ours beside vCache's, fixed thresholds and who knows the truth.

`python -m bench.budget_stream [--requests 20000] [--seeds 3] [--seed 1] [--variant sigmoid] [--json]`

For each budget delta and rule: hits and wrong answers in all requests, and wrong answers in hits; medians over
seeds. `oracle` knows each entry's true curve and explores as vCache's bound asks of it. `hindsight` is the fixed
threshold that, chosen after the fact, gives most hits within the budget. Nobody learns from an answer it served.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence

from bench.budget.rules import Oracle, Ours, Rule, Static, VCache
from bench.budget.world import VARIANTS, Request, World
from policies.budget import score_of

DELTAS = (0.005, 0.01, 0.02)
MOST_BELOW_ORACLE = 0.10
Figures = dict[str, float]

RULES: dict[str, Callable[[float, int], Rule]] = {
    "ours": Ours,
    "vcache": VCache,
    "vcache_log_grid": lambda delta, seed: VCache(delta, seed, log_grid=True),
    "fixed_0.99": lambda _delta, _seed: Static(score_of(0.99)),
    "oracle": Oracle,
}


def figures(rule: Rule, requests: Iterable[Request]) -> Figures:
    """Runs the stream through a rule."""
    asked = hits = wrong = 0
    for request in requests:
        asked += 1
        if rule.serves(request):
            hits += 1
            wrong += not request.right
    return shares(asked, hits, wrong)


def shares(asked: int, hits: int, wrong: int) -> Figures:
    """Counts as shares."""
    return {"hits": hits / asked, "wrong_of_all": wrong / asked, "wrong_of_hits": wrong / max(1, hits)}


def hindsight(delta: float, requests: Sequence[Request]) -> Figures:
    """The lowest fixed threshold that keeps the budget on these very requests."""
    best = shares(len(requests), 0, 0)
    wrong = 0
    for hits, request in enumerate(sorted(requests, key=lambda one: -one.score), 1):
        wrong += not request.right
        if wrong <= delta * len(requests):
            best = shares(len(requests), hits, wrong)
    return best


def medians(runs: Sequence[Figures]) -> Figures:
    """Of each figure over the runs, and the worst share of wrong answers."""
    middle = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    return {**middle, "worst_wrong_of_all": max(run["wrong_of_all"] for run in runs)}


def measure(variant: str, requests: int, seeds: Sequence[int]) -> dict[str, dict[str, Figures]]:
    """Every rule at every budget on one kind of stream."""
    streams = {seed: list(World(variant, seed).stream(requests)) for seed in seeds}
    result: dict[str, dict[str, Figures]] = {}
    for delta in DELTAS:
        of_delta: dict[str, Figures] = {}
        for name, rule in RULES.items():
            of_delta[name] = medians([figures(rule(delta, seed), stream) for seed, stream in streams.items()])
            print(f"{variant} {delta} {name} {of_delta[name]}", file=sys.stderr, flush=True)
        of_delta["hindsight"] = medians([hindsight(delta, stream) for stream in streams.values()])
        result[str(delta)] = of_delta
    return result


def verdicts(of_delta: dict[str, dict[str, Figures]]) -> dict[str, dict[str, bool]]:
    """Per budget: whether ours keeps it, and comes near enough to the oracle."""
    return {
        delta: {
            "within_budget": found["ours"]["wrong_of_all"] <= float(delta),
            "near_oracle": found["ours"]["hits"] >= (1 - MOST_BELOW_ORACLE) * found["oracle"]["hits"],
        }
        for delta, found in of_delta.items()
    }


def table(variant: str, of_delta: dict[str, dict[str, Figures]]) -> str:
    """The figures in percent, a line per budget and rule."""
    lines = [f"{variant}: budget, rule, hits, wrong/all (worst seed), wrong/hits"]
    for delta, found in of_delta.items():
        for name, one in found.items():
            wrong = f"{one['wrong_of_all']:.2%} ({one['worst_wrong_of_all']:.2%})"
            lines.append(
                f"{float(delta):6.1%}  {name:16} {one['hits']:6.1%}  {wrong:16} {one['wrong_of_hits']:.2%}"
            )
    return "\n".join(lines)


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--variant", choices=VARIANTS, action="append")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    seeds = range(given.seed, given.seed + given.seeds)
    found = {variant: measure(variant, given.requests, seeds) for variant in given.variant or VARIANTS}
    if given.json:
        told = {name: verdicts(of_delta) for name, of_delta in found.items()}
        print(json.dumps({"requests": given.requests, "seeds": [*seeds], "variants": found, "verdicts": told}))
    else:
        print("\n\n".join(table(name, of_delta) for name, of_delta in found.items()))


if __name__ == "__main__":
    main()
