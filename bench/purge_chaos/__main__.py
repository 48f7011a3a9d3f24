"""Purges under load while every part is killed in turn.

`python -m bench.purge_chaos --requests 100000 --json`. Two gateways are replicas over one Redis and one
PostgreSQL. The model's answers carry a version that is raised before each purge; once the purge has returned, no
answer that it takes and that was made before may be given to a request that is sent from then on. A soft purge
leaves it to requests that accept stale answers, and to them as STALE. Meanwhile a worker, a whole replica, Redis
and PostgreSQL get SIGKILL, Redis is flushed, and fails over to one that lost the last writes.

Kinds: bench.purge_chaos.kinds; all but by meaning, for which the stand has no semantic service.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from bench.purge_chaos.load import Load
from bench.purge_chaos.stand import Stand, stand
from bench.purge_chaos.upstream import VersionedUpstream

_CLIENTS = 16


def plan(it: Stand) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
    """The faults, in order; each strikes when as much more was answered as before the one before."""
    return [
        ("worker 0: SIGKILL", lambda: it.kill_worker(0)),
        ("redis: snapshot kept", it.snapshot_redis),
        ("redis: FLUSHALL", it.flush_redis),
        ("postgres: SIGKILL", it.kill_postgres),
        ("redis: fail-over to the snapshot", it.fail_over_redis),
        ("replica 1: SIGKILL", lambda: it.kill_replica(1)),
        ("redis: SIGKILL", it.kill_redis),
        ("replica 0: SIGKILL", lambda: it.kill_replica(0)),
    ]


async def run(requests: int, seed: int, clients: int = _CLIENTS) -> dict[str, Any]:
    """One run; the report as it is printed."""
    async with VersionedUpstream(seed) as upstream, stand(upstream.base_url) as it:
        load = Load(it.ports, upstream, requests, seed)
        begun = time.monotonic()
        asking = asyncio.create_task(load.run(clients))
        struck = await _strike(it, load, requests)
        await asking
        return _report(load, upstream, struck, time.monotonic() - begun, seed)


async def _strike(it: Stand, load: Load, requests: int) -> list[dict[str, Any]]:
    faults = plan(it)
    struck = []
    for number, (name, fault) in enumerate(faults, start=1):
        while load.tally.requests < number * requests // (len(faults) + 1):  # noqa: ASYNC110  (counted by the clients)
            await asyncio.sleep(0.02)
        at, purges, begun = load.tally.requests, load.tally.purges, time.monotonic()
        await fault()
        took_s = round(time.monotonic() - begun, 2)
        struck.append({"fault": name, "at_request": at, "after_purges": purges, "back_after_s": took_s})
    return struck


def _report(
    load: Load, upstream: VersionedUpstream, struck: list[dict[str, Any]], took_s: float, seed: int
) -> dict[str, Any]:
    tally, truth = load.tally, load.truth
    cut = statistics.quantiles(tally.purge_ms, n=100) if len(tally.purge_ms) > 1 else [0.0] * 99
    return {
        "requests": tally.requests,
        "stale": len(truth.stale),
        "stale_examples": truth.stale[:5],
        "kept": truth.kept,
        "allowed_stale": truth.allowed_stale,
        "answers": dict(tally.answers),
        "failures": dict(tally.failures),
        "model_calls": upstream.calls,
        "purges": tally.purges,
        "purge_tries_refused": dict(tally.refused),
        "purge_ms": {"p50": round(cut[49], 1), "p99": round(cut[98], 1)},
        "kinds": truth.told(),
        "faults": struck,
        "seconds": round(took_s, 1),
        "seed": seed,
    }


def main() -> None:
    """Prints the report; exits 1 when anything stale was served."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=_CLIENTS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report = asyncio.run(run(options.requests, options.seed, options.clients))
    if options.json:
        print(json.dumps(report))
    else:
        for name, value in report.items():
            print(f"{name:>20}  {value}")
    sys.exit(1 if report["stale"] else 0)


if __name__ == "__main__":
    main()
