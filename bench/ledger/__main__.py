"""Reconciles the ledger: `python -m bench.ledger --requests 10000 --json`.

A real set with two workers over an upstream that reports any usage there is. Clients of both protocols ask for
hits, misses, streams, what may not be stored, what is asked meanwhile, what fails, breaks off, or is left in the
middle. Then ledger, metrics, what clients saw, and what the upstream reported must agree, to the last picodollar.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from bench.exact import free_port
from bench.ledger.load import MODELS, Clients, plan
from bench.ledger.upstream import Connection, Reported
from gateway.home import Home
from gateway.ledger.prices import price_table
from gateway.settings import Settings, child_environment
from policies.ledger import PICO, cost, usd

_KEY = "lam_benchmark_of_the_ledger_0123456789"
_PROVIDERS = {"mini": "one", "sonnet": "two", "own": "one"}
_SETTLE_S = 30.0
_TENANTS = ("acme", "zeta")

Json = dict[str, Any]


@contextlib.contextmanager
def serving(folder: Path, upstream_port: int) -> Iterator[str]:
    """A set of two workers; gives its URL."""
    port, config = free_port(), folder / "lamina.toml"
    models = "".join(
        f'[[models]]\nname = "{name}"\nprovider = "{_PROVIDERS[name]}"\nupstream_model = "{upstream}"\n'
        for name, upstream in MODELS.items()
    )
    base = f'base_url = "http://127.0.0.1:{upstream_port}/v1"\n'
    head = f'home = "{folder / "home"}"\nport = {port}\nworkers = 2\nbootstrap_key = "{_KEY}"\n'
    config.write_text(
        f"{head}engine = {{ enabled = false }}\n[providers.one]\n{base}[providers.two]\n{base}{models}", "utf-8"
    )
    environment = child_environment({"LAMINA_CONFIG": str(config)})
    command = [sys.executable, "-m", "gateway", "serve"]
    with (folder / "lamina.log").open("wb") as log:
        served = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        _until_ready(f"http://127.0.0.1:{port}", served)
        yield f"http://127.0.0.1:{port}"
    finally:
        served.terminate()
        served.wait(60)


def _until_ready(url: str, served: "subprocess.Popen[bytes]") -> None:
    give_up = time.monotonic() + 90
    while time.monotonic() < give_up and served.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/readyz", timeout=2):
            return
        time.sleep(0.1)
    raise SystemExit("the set did not come up")


def tenants(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Keys by tenant, and names by tenant's id."""
    keys = {"default": _KEY, "nobody": "lam_of_nobody"}
    for name in _TENANTS:
        _lamina(folder, "tenants", "create", name)
        keys[name] = _lamina(folder, "keys", "create", "--tenant", name)["key"]
    listed = _lamina(folder, "tenants", "list")["tenants"]
    return keys, {one["id"]: one["name"] for one in listed}


def _lamina(folder: Path, *words: str) -> Json:
    environment = child_environment({"LAMINA_CONFIG": str(folder / "lamina.toml")})
    command = [sys.executable, "-m", "gateway", *words, "--json"]
    done = subprocess.run(command, env=environment, check=True, capture_output=True)
    told: Json = json.loads(done.stdout)
    return told


class Ledgers:
    """What the running set says."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._key = Home(folder / "home").admin_key.read_text("utf-8").strip()

    def account(self) -> list[Json]:
        """The ledger's sums by tenant, model and layer."""
        groups: list[Json] = self._get("/admin/v1/ledger?days=2&by=tenant_id&by=model&by=layer")["groups"]
        return groups

    def caches(self) -> dict[str, Json]:
        """What prompt caches did, by model; a day that ends meanwhile is put together."""
        found: dict[str, Json] = {}
        for line in self._get("/admin/v1/ledger/cache-use?days=2")["items"]:
            use = found.setdefault(line["model"], {"reads": 0, "writes": 0, "fresh": 0})
            for name in use:
                use[name] += line["use"][name]
        return found

    def settled(self, requests: int) -> list[Json]:
        """The sums, once those of every worker are in."""
        give_up = time.monotonic() + _SETTLE_S
        while True:
            groups = self.account()
            if sum(one["totals"]["requests"] for one in groups) >= requests or time.monotonic() > give_up:
                time.sleep(2.5)  # calls that nobody waits for any more end a little later
                return self.account()
            time.sleep(0.5)

    def metrics(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Every sample of /metrics."""
        with urllib.request.urlopen(f"{self._url}/metrics", timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        found = {}
        for line in lines:
            matched = re.fullmatch(r"(lamina_\w+)\{(.*)\} (\S+)", line)
            if matched:
                labels = frozenset(re.findall(r'(\w+)="([^"]*)"', matched[2]))
                found[matched[1], labels] = float(matched[3])
        return found

    def _get(self, path: str) -> Json:
        asked = urllib.request.Request(self._url + path, headers={"authorization": f"Bearer {self._key}"})
        with urllib.request.urlopen(asked, timeout=10) as reply:
            told: Json = json.loads(reply.read())
        return told


class Differences:
    """What does not agree."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.compared = 0

    def same(self, what: str, ledger: object, other: object) -> None:
        """Counts a comparison, and keeps it when the two differ."""
        self.compared += 1
        if ledger != other:
            self.found.append(f"{what}: {ledger} and {other}")


def against_clients(groups: list[Json], names: dict[str, str], seen: Clients, found: Differences) -> None:
    """The ledger's answers and what clients saw."""
    ledger = {
        (names.get(one["group"]["tenant_id"], "-"), one["group"]["model"], one["group"]["layer"]): one["totals"]
        for one in groups
    }
    found.same("keys", sorted(ledger), sorted(seen.requests))
    for key in ledger.keys() & seen.requests.keys():
        told = ledger[key]
        for name, counted in (
            ("requests", seen.requests),
            ("errors", seen.errors),
            ("prompt_tokens", seen.prompt),
            ("completion_tokens", seen.completion),
        ):
            found.same(f"{name} of {key}", told[name], counted[key])
        if key[2] != "model" and told["saved_usd"] is not None:
            found.same(f"saved by {key}", told["saved_usd"], usd(seen.saved_pico[key]))


def against_upstream(groups: list[Json], caches: dict[str, Json], reported: Reported, found: Differences) -> None:
    """The ledger's calls and what the upstream reported, money included."""
    prices = price_table(Settings())
    for model in MODELS.values():
        mine = [one["totals"] for one in groups if one["group"]["model"] == model and one["totals"]["calls"]]
        splits, price = reported.splits[model], prices.of(model)
        found.same(f"calls of {model}", sum(one["calls"] for one in mine), len(splits) + reported.untold[model])
        found.same(f"untold of {model}", sum(one["untold"] for one in mine), reported.untold[model])
        prompt, output = sum(one.prompt for one in splits), sum(one.output for one in splits)
        found.same(f"prompt of {model}", sum(one["call_prompt_tokens"] for one in mine), prompt)
        found.same(f"completion of {model}", sum(one["call_completion_tokens"] for one in mine), output)
        use = {"reads": "cached", "writes": "written", "fresh": "fresh"}
        told = {name: sum(getattr(one, of) for one in splits) for name, of in use.items()}
        found.same(f"cache use of {model}", caches.get(model), told)
        paid = [one["cost_usd"] for one in mine]
        if price is None:
            found.same(f"cost of {model}", set(paid), {None})
        else:
            spent = sum(cost(one, price) for one in splits)
            found.same(f"cost of {model}", sum(Decimal(one or 0) for one in paid), Decimal(usd(spent)))


def against_metrics(
    ledgers: Ledgers, groups: list[Json], reported: Reported, seen: Clients, found: Differences
) -> None:
    """The ledger and Prometheus."""
    page = ledgers.metrics()

    def total(name: str, **labels: str) -> float:
        wanted = set(labels.items())
        return sum(value for (series, has), value in page.items() if series == name and wanted <= has)

    by_layer: Counter[tuple[str, str]] = Counter()
    for one in groups:
        for name in ("requests", "prompt_tokens", "completion_tokens"):
            by_layer[one["group"]["layer"], name] += one["totals"][name]
    for layer, source in (("exact", "exact"), ("coalesced", "flight"), ("model", "model")):
        for kind in ("prompt", "completion"):
            counted = total("lamina_tokens_total", kind=kind, source=source)
            found.same(f"metric: {kind} of {layer}", by_layer[layer, f"{kind}_tokens"], counted)
        found.same(
            f"metric: requests of {layer}",
            by_layer[layer, "requests"],
            total("lamina_request_seconds_count", source=source),
        )
    for status, count in seen.statuses.items():
        found.same(f"metric: status {status}", count, total("lamina_requests_total", status=str(status)))
    prices = price_table(Settings())
    for name, model in MODELS.items():
        for kind in ("fresh", "read", "write_5m", "output"):
            told = sum(getattr(one, kind) for one in reported.splits[model])
            found.same(
                f"metric: {kind} of {model}", told, total("lamina_call_tokens_total", model=name, kind=kind)
            )
        price = prices.of(model)
        spent = 0 if price is None else sum(cost(one, price) for one in reported.splits[model]) / PICO
        near = abs(spent - total("lamina_spent_usd_total", model=name)) <= 1e-9 * max(1.0, spent)
        found.same(f"metric: money of {model}", near, True)


async def _load(url: str, keys: dict[str, str], count: int, seed: int) -> Clients:
    clients = Clients(url, keys, price_table(Settings()))
    await clients.run(plan(count, ["default", *_TENANTS], seed))
    return clients


async def _run(count: int, seed: int) -> Json:
    reported, loop = Reported(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(reported), "127.0.0.1", 0)
    with tempfile.TemporaryDirectory(prefix="lam-ledger-") as scratch, contextlib.ExitStack() as stack:
        folder, port = Path(scratch), server.sockets[0].getsockname()[1]
        url = await asyncio.to_thread(stack.enter_context, serving(folder, port))
        keys, names = await asyncio.to_thread(tenants, folder)
        begun = time.perf_counter()
        seen = await _load(url, keys, count, seed)
        took_s = time.perf_counter() - begun
        ledgers, found = Ledgers(url, folder), Differences()
        groups = await asyncio.to_thread(ledgers.settled, count)
        against_clients(groups, names, seen, found)
        against_upstream(groups, await asyncio.to_thread(ledgers.caches), reported, found)
        await asyncio.to_thread(against_metrics, ledgers, groups, reported, seen, found)
        faults = {
            "/".join(value for _, value in sorted(labels)): count
            for (name, labels), count in (await asyncio.to_thread(ledgers.metrics)).items()
            if name == "lamina_faults_total"
        }
        await asyncio.to_thread(stack.close)
    server.close()
    layers: Counter[str] = Counter()
    for (_, _, layer), requests in seen.requests.items():
        layers[layer] += requests
    return {
        "requests": count,
        "seconds": round(took_s, 1),
        "layers": dict(layers),
        "statuses": {str(status): number for status, number in sorted(seen.statuses.items())},
        "faults": faults,
        "calls": sum(len(splits) for splits in reported.splits.values()) + sum(reported.untold.values()),
        "compared": found.compared,
        "differences": found.found,
    }


def main() -> int:
    """Runs, prints, and fails when anything differs."""
    parser = argparse.ArgumentParser(prog="python -m bench.ledger", description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    given = parser.parse_args()
    report = asyncio.run(_run(given.requests, given.seed))
    print(json.dumps(report, indent=None if given.json else 2))
    return os.EX_OK if not report["differences"] else 1


if __name__ == "__main__":
    sys.exit(main())
