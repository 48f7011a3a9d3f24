"""`python -m bench.tenant_probe [--json]`: can a clock tell whether somebody else has sent a prompt?

The victim sends a prompt. The probe then times its own first token on the same prompt, as the same tenant and as
another, and on prompts that nobody has sent. A prefix cache shared between tenants would show as an area under the
ROC curve near 1 for the other tenant (arXiv 2411.18191); 0.5 is what a coin finds. The same tenant's own hits must
show, else the probe proves nothing.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench.engine import http_first_token
from bench.engine.answering import ids_from
from engine.packaged import packaged_model

_VOCAB = 49000


def main() -> int:
    """Run an engine, probe it over HTTP, print."""
    options = _options()
    model = options.model or packaged_model()
    with http_first_token.serving(model, options.threads, []) as path:
        report = _probe(path, options.rounds, options.prompt)
    print(json.dumps(report, indent=None if options.json else 2))
    return 0


def auc(hits: Sequence[float], misses: Sequence[float]) -> float:
    """Chance that a hit is faster than a miss, ties half; the area under the ROC curve."""
    pairs = [(hit, miss) for hit in hits for miss in misses]
    return sum(1.0 if hit < miss else 0.5 if hit == miss else 0.0 for hit, miss in pairs) / len(pairs)


def _probe(path: Path, rounds: int, length: int) -> dict[str, Any]:
    times: dict[str, list[float]] = {"unsent": [], "same_tenant": [], "other_tenant": []}
    cached = dict.fromkeys(times, 0)
    http_first_token.first_token_s(path, ids_from(1, length, _VOCAB), "warm-up")
    for number in range(rounds):
        sent = ids_from(10_000 + number, length, _VOCAB)
        http_first_token.first_token_s(path, sent, "victim")
        unsent = ids_from(20_000 + number, length, _VOCAB)
        for name, ids, tenant in (
            ("unsent", unsent, "probe"),
            ("other_tenant", sent, "probe"),
            ("same_tenant", sent, "victim"),
        ):
            seconds, tokens = http_first_token.first_token_s(path, ids, tenant)
            times[name].append(seconds)
            cached[name] += tokens
    return {
        "rounds": rounds,
        "prompt_tokens": length,
        "auc_same_tenant": round(auc(times["same_tenant"], times["unsent"]), 3),
        "auc_other_tenant": round(auc(times["other_tenant"], times["unsent"]), 3),
        "median_ms": {name: round(1e3 * median(of), 2) for name, of in times.items()},
        "cached_tokens": cached,
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.tenant_probe", description=__doc__)
    parser.add_argument("--model", type=Path, help="default: the packaged model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--prompt", type=int, default=96, help="tokens of a prompt")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
