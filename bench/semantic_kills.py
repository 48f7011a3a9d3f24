"""A whole set under load while its semantic service is killed.

`python -m bench.semantic_kills --kills 1000 --json`. Clients ask a few hundred questions in two wordings, whose
answers live 20 seconds, so rows come and go; the service gets SIGKILL at random moments, also while it starts.
Every request must be answered, and in the end the index must hold exactly the rows of the database. The service
is started again at once, beside the set; `--supervised` leaves that to the set, which waits up to 5 s.
"""

import argparse
import collections
import contextlib
import http.client
import json
import os
import random
import signal
import socket
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
_LONGEST_LIFE_S = 1.5
_START_S = 60.0
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
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)) as connection:
            while not self._stopped.is_set():
                self._ask_once(connection, draw)
                time.sleep(_PAUSE_S)

    def _ask_once(self, connection: http.client.HTTPConnection, draw: random.Random) -> None:
        headers = {"authorization": f"Bearer {_KEY}", "content-type": "application/json"}
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


class Service:
    """The service as a process of ours, which is killed and started again.

    Args:
        home: of the set, whose database and master key it reads.
        log: takes what it says.
    """

    def __init__(self, home: Home, log: Path) -> None:
        place = home.root.with_name("service")
        place.mkdir()
        url = place / "database"
        url.write_text(f"sqlite:///{home.database}")
        files = ("--database-url-file", url, "--master-key-file", home.master_key, "--home", place / "home")
        self._socket = home.semantic_socket
        self._argv = [sys.executable, "-m", "semantic", "--socket", self._socket, *files]
        self._log = log
        self._running: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Starts it and returns at once."""
        argv = [str(word) for word in self._argv]
        with self._log.open("ab") as log:
            self._running = subprocess.Popen(argv, env=child_environment({}), stdout=log, stderr=log)

    def wait_until_it_serves(self) -> None:
        """Returns when it answers, or when it does not within a minute."""
        ends = time.monotonic() + _START_S
        while not _ready(self._socket) and time.monotonic() < ends:
            time.sleep(0.02)

    def kill(self) -> bool:
        """Kills it with SIGKILL; returns whether it was serving by then."""
        if self._running is None:
            return False
        served = _ready(self._socket)
        self._running.kill()
        self._running.wait()
        return served


@contextlib.contextmanager
def whole_set(folder: Path, *, supervised: bool) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """`lamina serve` over an upstream that answers at once; gives its port and process."""
    upstream_port, port = free_port(), free_port()
    elsewhere = f'semantic_url = "unix://{Home(folder / "home").semantic_socket}"'
    config = folder / "lamina.toml"
    config.write_text(
        f"""home = "{folder / "home"}"
port = {port}
bootstrap_key = "{_KEY}"
{"" if supervised else elsewhere}
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
    serve = [sys.executable, "-m", "gateway", "serve"]
    with (folder / "lamina.log").open("wb") as log:
        served = subprocess.Popen(serve, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        _until(lambda: _get(port, "/readyz") == 200, 60)
        yield port, served
    finally:
        for child in (served, upstream):
            child.terminate()
            child.wait(40)


def kill_ours(service: Service, count: int, draw: random.Random) -> int:
    """Kills the service so many times, and starts it again; returns how often it was serving."""
    served = 0
    for number in range(count):
        if draw.random() < 0.5:
            service.wait_until_it_serves()
        time.sleep(_LONGEST_LIFE_S * draw.random() ** 2)  # short lives are likelier than long ones
        served += service.kill()
        service.start()
        if number % 50 == 49:
            print(f"{number + 1} kills, {served} of them while it served", file=sys.stderr, flush=True)
    return served


def kill_supervised(served: subprocess.Popen[bytes], count: int, draw: random.Random) -> int:
    """Kills the set's service so many times; returns how many it could not find one for within a second."""
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


def _ready(path: Path) -> bool:
    """Whether something answers on the socket."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(0.2)
        probe.connect(str(path))
        return True
    return False


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
    parser.add_argument("--supervised", action="store_true", help="let the set start the service again")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        report = _measured(Path(name), given.kills, given.seed, supervised=given.supervised)
    print(json.dumps(report) if given.json else json.dumps(report, indent=2))
    return 0 if report["index_equals_rows"] and set(report["statuses"]) == {"200"} else 1


def _measured(folder: Path, kills: int, seed: int, *, supervised: bool) -> dict[str, Any]:
    """The whole run, as it is printed."""
    home, draw = Home(folder / "home"), random.Random(seed)
    missed, served = 0, None
    with whole_set(folder, supervised=supervised) as (port, gateway), contextlib.ExitStack() as stack:
        begun = time.monotonic()
        service = None if supervised else stack.enter_context(Service(home, folder / "service.log"))
        with Load(port, seed) as load:
            if service is None:
                missed = kill_supervised(gateway, kills, draw)
            else:
                served = kill_ours(service, kills, draw)
        equal, rows = _same(home)
    latencies = sorted(load.latencies_ms)
    return {
        "kills": kills - missed,
        "kills_while_it_served": served,
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


if __name__ == "__main__":
    sys.exit(main())
