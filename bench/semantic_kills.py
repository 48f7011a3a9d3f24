"""A whole set under load while its semantic service is killed.

`python -m bench.semantic_kills --kills 1000 --json`. Clients ask a few hundred questions in two wordings, whose
answers live 20 seconds, so rows come and go; the service gets SIGKILL at random moments, also while it starts.
Every request must be answered, and in the end the index must hold exactly the rows of the database.
"""

import argparse
import collections
import contextlib
import http.client
import json
import os
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from bench.exact import free_port
from bench.semantic_stand import text_of
from gateway.home import Home
from gateway.settings import child_environment
from policies.nomination import Near, NearRows

_KEY = "lam_benchmark_of_kills_0123456789"
_CLIENTS = 4
_PAUSE_S = 0.02
_SETTLE_S = 90.0
_QUESTIONS = 400
_CURL = ("curl", "-sf", "--data-binary", "@-", "-H", "content-type: application/msgpack", "--unix-socket")


class Load:
    """Clients that ask until they are stopped; counts statuses and where answers came from."""

    def __init__(self, port: int, seed: int) -> None:
        self.statuses: collections.Counter[str] = collections.Counter()
        self.sources: collections.Counter[str] = collections.Counter()
        self.latencies_ms: list[float] = []
        self._port = port
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(random.Random(seed + n),), daemon=True)
            for n in range(_CLIENTS)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(30)

    def _ask(self, draw: random.Random) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        headers = {"authorization": f"Bearer {_KEY}", "content-type": "application/json"}
        while not self._stopped.is_set():
            question = text_of(draw.randrange(_QUESTIONS))
            if draw.random() < 0.5:
                question = f"Hello, {question.lower()} thanks"
            body = json.dumps({"model": "m", "messages": [{"role": "user", "content": question}]})
            begun = time.perf_counter()
            try:
                connection.request("POST", "/v1/chat/completions", body, headers)
                reply = connection.getresponse()
                reply.read()
                self.statuses[str(reply.status)] += 1
                self.sources[reply.headers.get("x-lamina-cache", "none")] += 1
            except (OSError, http.client.HTTPException) as error:
                self.statuses[type(error).__name__] += 1
                connection.close()
            self.latencies_ms.append(1000 * (time.perf_counter() - begun))
            time.sleep(_PAUSE_S)


@contextlib.contextmanager
def whole_set(folder: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """`lamina serve` over an upstream that answers at once; gives its port and process."""
    upstream_port, port = free_port(), free_port()
    config = folder / "lamina.toml"
    config.write_text(
        f"""home = "{folder / "home"}"
port = {port}
bootstrap_key = "{_KEY}"
cache = {{ mode = "semantic", ttl_s = 20 }}
semantic = {{ sweep_s = 5 }}
engine = {{ enabled = false }}
[providers.up]
base_url = "http://127.0.0.1:{upstream_port}/v1"
[[models]]
name = "m"
provider = "up"
"""
    )
    upstream = subprocess.Popen([sys.executable, "-m", "bench.fake_upstream", "--port", str(upstream_port)])
    environment = child_environment({"LAMINA_CONFIG": str(config)})
    log = (folder / "lamina.log").open("wb")
    served = subprocess.Popen(
        [sys.executable, "-m", "gateway", "serve"], env=environment, stdout=log, stderr=subprocess.STDOUT
    )
    try:
        _until(lambda: _get(port, "/readyz") == 200, 60)
        yield port, served
    finally:
        for child in (served, upstream):
            child.terminate()
            child.wait(40)


def kill(served: subprocess.Popen[bytes], count: int, draw: random.Random) -> int:
    """Kills the service so many times; returns how many it could not find one for within a second."""
    missed = 0
    for number in range(count):
        time.sleep(draw.uniform(0.05, 1.5))
        ends = time.monotonic() + 1.0
        while (pid := _service_of(served.pid)) is None and time.monotonic() < ends:
            time.sleep(0.02)
        if pid is None:
            missed += 1
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if number % 50 == 49:
            print(f"{number + 1} kills", file=sys.stderr, flush=True)
    return missed


def _service_of(supervisor: int) -> int | None:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == supervisor and b"semantic" in words:
                return int(entry.name)
    return None


def _same(home: Home) -> tuple[bool, int]:
    """Whether index and rows agree, waiting for the service to catch up; and how many rows there are."""
    tenants = _query(home, "SELECT id FROM tenants")
    live: list[int] = []
    ends = time.monotonic() + _SETTLE_S
    while time.monotonic() < ends:
        live = sorted(row for (row,) in _query(home, "SELECT \"row\" FROM semantic_rows WHERE state = 'live'"))
        with contextlib.suppress(OSError, http.client.HTTPException, msgspec.DecodeError):
            asked = Near(tenants[0][0], "x", similarity=-1.0, limit=1000)
            if sorted(row for row, _ in _near(home.semantic_socket, asked).rows) == live:
                return True, len(live)
        time.sleep(0.5)
    return False, len(live)


def _near(path: Path, asked: Near) -> NearRows:
    done = subprocess.run(
        [*_CURL, str(path), "http://semantic/v1/near"],
        input=msgspec.msgpack.encode(asked),
        capture_output=True,
        check=False,
    )
    return msgspec.msgpack.decode(done.stdout, type=NearRows)


def _query(home: Home, statement: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(home.database, timeout=20)) as connection:
        return connection.execute(statement).fetchall()


def _get(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def _until(done: Any, within_s: float) -> None:
    ends = time.monotonic() + within_s
    while not done():
        if time.monotonic() > ends:
            raise SystemExit("the set did not become ready; its log is above")
        time.sleep(0.2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs it; returns 0 when every request was answered and index and rows agree."""
    parser = argparse.ArgumentParser(prog="python -m bench.semantic_kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with whole_set(folder) as (port, served):
            begun = time.monotonic()
            with Load(port, given.seed) as load:
                missed = kill(served, given.kills, random.Random(given.seed))
            equal, rows = _same(Home(folder / "home"))
    latencies = sorted(load.latencies_ms)
    report = {
        "kills": given.kills - missed,
        "requests": sum(load.statuses.values()),
        "statuses": dict(load.statuses),
        "sources": dict(load.sources),
        "latency_ms": {
            "p50": round(statistics.median(latencies), 2),
            "p99": round(latencies[int(0.99 * (len(latencies) - 1))], 2),
            "max": round(latencies[-1], 2),
        },
        "rows": rows,
        "index_equals_rows": equal,
        "spent_s": round(time.monotonic() - begun, 1),
    }
    print(json.dumps(report) if given.json else json.dumps(report, indent=2))
    return 0 if equal and set(load.statuses) == {"200"} else 1


if __name__ == "__main__":
    sys.exit(main())
