"""`python -m bench.semantic --data DIR [--set NAME …] [--json]`: what the real layer serves of labelled sets.

Embedder, index, vetoes, verifier and conversations are the service's own, in this process; a candidate is served
when no veto speaks and its chance of being right reaches the setting. `served_same_at_once` is what an error
budget that has learnt nothing yet lets through of it, on average, the rest being asked upstream and compared.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.semantic.clusters import run_clusters
from bench.semantic.pairs import run_pairs
from bench.semantic.sets import CLUSTER_SETS, PAIR_SETS, read_clusters, read_pairs
from gateway.settings import SemanticSettings
from policies.semantic import Least
from semantic.options import Options
from semantic.rehearsal import Rehearsal, open_rehearsal

_TOGETHER = ("fow_pairs", "fow_conversations")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the sets; returns the exit status."""
    options = _options(arguments)
    names = options.set or [*PAIR_SETS, *CLUSTER_SETS]
    rehearsal = open_rehearsal(Options(threads=options.threads, verifier=options.verifier))
    try:
        sets = {name: found for name in names for name, found in _run(rehearsal, name, options).items()}
    finally:
        rehearsal.close()
    report = {
        "min_probability": options.least,
        "min_conversation_probability": options.least_conversation,
        "max_wrong": options.delta,
        "sets": sets,
    }
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        for name, found in sets.items():
            shown = {key: value for key, value in found.items() if not isinstance(value, dict | list)}
            print(f"{name}: {json.dumps(shown)}")
    return 0


def _run(rehearsal: Rehearsal, name: str, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    print(f"{name} ...", file=sys.stderr, flush=True)
    if name in CLUSTER_SETS:
        return {name: run_clusters(rehearsal, read_clusters(options.data, name), options.least)}
    pairs = read_pairs(options.data, name)
    least = Least(options.least, options.least_conversation)
    found = {name: run_pairs(rehearsal, pairs, least, options.delta, together=False)}
    if name in _TOGETHER:
        found[f"{name}_together"] = run_pairs(rehearsal, pairs, least, options.delta, together=True)
    return found


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    defaults = SemanticSettings()
    parser = argparse.ArgumentParser(prog="python -m bench.semantic", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with semantic/, see its README")
    parser.add_argument("--set", action="append", choices=[*PAIR_SETS, *CLUSTER_SETS], help="all when absent")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--least", type=float, default=defaults.min_probability, help="probability served from")
    parser.add_argument("--least-conversation", type=float, default=defaults.min_conversation_probability)
    parser.add_argument("--delta", type=float, default=defaults.max_wrong, help="error budget")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--verifier", type=Path, default=None, help="folder; the packaged one when absent")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
