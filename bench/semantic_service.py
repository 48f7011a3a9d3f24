"""The semantic service measured over its socket: look-ups by size, recall, throughput, rebuild, kills.

`python -m bench.semantic_service --json` runs all; `--only lookup --sizes 1000,10000` a part. Times are those of
the client, in one process, over a Unix socket; the service is another process.
"""

import argparse
import asyncio
import concurrent.futures
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
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import faiss
import msgspec
import numpy as np

from bench.semantic_stand import FAMILY, PARTITION, clustered, fill, text_of
from gateway.db import Database, TenantRepository
from policies.nomination import Ask, Near, NearRows, Nominated, Texts
from policies.questions import Question
from semantic.index.index import Index

_WARM = 20
_TOP = 10


class Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket, kept open."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=600)
        self._path = path

    def connect(self) -> None:
        """Connects to the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))

    def post(self, path: str, asked: Any) -> bytes:
        """One request."""
        self.request("POST", path, msgspec.msgpack.encode(asked))
        response = self.getresponse()
        body = response.read()
        assert response.status == 200, body
        return body


@contextlib.contextmanager
def process(command: Sequence[str], end: signal.Signals = signal.SIGTERM) -> Iterator[subprocess.Popen[str]]:
    """Runs a module of ours meanwhile."""
    running = subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True)
    try:
        yield running
    finally:
        running.send_signal(end)
        running.wait(timeout=120)


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    """The middle and the slow end, in milliseconds."""
    ordered = sorted(seconds)
    return {
        "p50_ms": round(1000 * statistics.median(ordered), 3),
        "p99_ms": round(1000 * ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], 3),
        "count": len(ordered),
    }


def lookups(sizes: Sequence[int], count: int, threads: int) -> list[dict[str, Any]]:
    """Look-ups of questions never asked before, one at a time, per size of the partition."""
    found = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "s.sock"
            command = ["bench.semantic_stand", "--socket", str(path), "--entries", str(size)]
            with process([*command, "--threads", str(threads)]) as running:
                assert running.stdout is not None
                spent = [float(word) for word in running.stdout.readline().split()]
                found.append({"entries": size, "fill_s": spent[0], "build_s": spent[1], **_asked(path, count)})
    return found


def _asked(path: Path, count: int) -> dict[str, Any]:
    connection, seconds, spent, before = Connection(path), [], [], []
    for number in range(count + _WARM):
        question = Question((("user", text_of(3_000_000 + 17 * number)),))
        began = time.perf_counter()
        body = connection.post("/v1/nominate", Ask(PARTITION, FAMILY, question))
        seconds.append(time.perf_counter() - began)
        nominated = msgspec.msgpack.decode(body, type=Nominated)
        spent.append(nominated.spent_ms)
        before.append(seconds[-1] - nominated.spent_ms[3] / 1000)
    stages = zip(*spent[_WARM:], strict=True)
    names = ("embedding", "search", "vetoes", "verifier")
    return {
        **quantiles(seconds[_WARM:]),
        "before_verification": quantiles(before[_WARM:]),
        "stages_p50_ms": {
            name: round(statistics.median(each), 3) for name, each in zip(names, stages, strict=True)
        },
    }


def recall(sizes: Sequence[int], threads: int) -> list[dict[str, Any]]:
    """How many of the ten nearest are found, for stored vectors with noise."""
    found = []
    for size in sizes:
        draw = np.random.default_rng(4)
        centres = draw.standard_normal((1000, 384), np.float32)
        centres /= np.linalg.norm(centres, axis=1, keepdims=True)
        index = Index(384, "bench")
        fill(index, centres, size, threads)
        asked = next(clustered(centres, 500, 9))
        stored = np.concatenate(list(clustered(centres, size, 1)))
        truth, _ = faiss.knn(asked, stored, _TOP, metric=faiss.METRIC_INNER_PRODUCT)
        hits, seconds = 0, []
        for one, best in zip(asked, truth, strict=True):
            began = time.perf_counter()
            rows = index.search(PARTITION, one, _TOP)
            seconds.append(time.perf_counter() - began)
            hits += sum(likeness >= best[-1] - 1e-5 for _, likeness in rows)
        share = hits / (len(asked) * min(_TOP, size))
        kind = index.turns[PARTITION].kind
        found.append({"entries": size, "kind": kind, "recall_at_10": round(share, 4), **quantiles(seconds)})
    return found


def throughput(seconds: float, threads: int, clients: int = 32) -> dict[str, Any]:
    """Embeddings a second of questions never asked before, under concurrent clients."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.sock"
        with process(["semantic", "--socket", str(path), "--threads", str(threads)]):
            _wait_ready(path)
            ends = time.perf_counter() + seconds

            def client(name: int) -> list[float]:
                connection, took = Connection(path), list[float]()
                while time.perf_counter() < ends:
                    began = time.perf_counter()
                    connection.post("/v1/embed", Texts((text_of(10_000 * name + len(took)),)))
                    took.append(time.perf_counter() - began)
                return took

            with concurrent.futures.ThreadPoolExecutor(clients) as pool:
                took = [one for each in pool.map(client, range(clients)) for one in each]
    return {"clients": clients, "per_second": round(len(took) / seconds, 1), **quantiles(took)}


def _wait_ready(path: Path, timeout_s: float = 900) -> float:
    """Seconds until /health says that all is loaded."""
    began = time.perf_counter()
    while time.perf_counter() - began < timeout_s:
        with contextlib.suppress(OSError), contextlib.closing(Connection(path)) as connection:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return time.perf_counter() - began
        time.sleep(0.02)
    raise TimeoutError


def rebuild(count: int, threads: int) -> dict[str, Any]:
    """Seconds from the start of the process until all rows are in the index: without and with a snapshot."""
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "lamina.db"
        _write_rows(database, count)
        path, found = Path(folder) / "s.sock", dict[str, Any](rows=count)
        command = ["semantic", "--socket", str(path), "--database-url", f"sqlite:///{database}"]
        command += ["--home", str(Path(folder) / "home"), "--threads", str(threads)]
        for name in ("from_rows_s", "from_snapshot_s"):
            with process(command):
                found[name] = round(_wait_ready(path), 2)
        found["database_mib"] = round(database.stat().st_size / (1 << 20))
        return found


def _migrated(database: Path) -> str:
    async def migrate() -> str:
        opened = Database.open(f"sqlite:///{database}", deadline_s=20)
        await opened.migrate()
        tenant = await TenantRepository(opened).create("bench", "bench", 0.0)
        await opened.close()
        return tenant.tenant_id

    return asyncio.run(migrate())


def _write_rows(database: Path, count: int) -> None:
    """Rows with their vectors, as another service would have written them."""
    tenant_id = _migrated(database)
    models = _fingerprint()
    centres = np.random.default_rng(4).standard_normal((1000, 384), np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    with contextlib.closing(sqlite3.connect(database)) as connection:
        row = 0
        for vectors in clustered(centres, count, 1):
            numbers = range(row + 1, row + 1 + len(vectors))
            connection.executemany(_INSERT, (_row(number, tenant_id) for number in numbers))
            pairs = zip(numbers, vectors, strict=True)
            written = ((number, models, vector.tobytes()) for number, vector in pairs)
            connection.executemany("INSERT INTO semantic_vectors VALUES (?, ?, ?)", written)
            row += len(vectors)
        connection.execute("UPDATE counters SET value = ? WHERE name = 'semantic'", (row,))
        connection.commit()


_INSERT = """INSERT INTO semantic_rows ("row", tenant_id, family, "partition", asked, question, "key", route,
sealed, as_of, created_at, expires_at, state, changed)
VALUES (?, ?, ?, ?, ?, ?, ?, 'm', ?, 0, 0, 1e12, 'live', ?)"""


def _row(number: int, tenant_id: str) -> tuple[object, ...]:
    asked = number.to_bytes(32, "big")
    question = msgspec.msgpack.encode(Question((("user", text_of(number)),)))
    return number, tenant_id, FAMILY, PARTITION, asked, question, asked, b"x" * 500, number


def _fingerprint() -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.sock"
        with process(["semantic", "--socket", str(path)]):
            _wait_ready(path)
            packed = Connection(path).post("/v1/embed", Texts(("x",)))
    models: str = msgspec.msgpack.decode(packed)[1]
    return models


def kills(count: int) -> dict[str, Any]:
    """Kills the service at random moments while rows come and go, then compares index and rows."""
    draw = random.Random(5)
    with tempfile.TemporaryDirectory() as folder:
        database, path = Path(folder) / "lamina.db", Path(folder) / "s.sock"
        tenant_id = _migrated(database)
        command = ["semantic", "--socket", str(path), "--database-url", f"sqlite:///{database}"]
        command += ["--home", str(Path(folder) / "home"), "--snapshot-seconds", "0.5"]
        with contextlib.closing(sqlite3.connect(database, timeout=20)) as connection:
            for _ in range(count):
                with process(command, signal.SIGKILL):
                    ends = time.monotonic() + draw.uniform(0.1, 4)
                    while time.monotonic() < ends:
                        _change(connection, draw, tenant_id)
                        time.sleep(0.01)
            with process(command):
                _wait_ready(path)
                time.sleep(1)
                asked = Near(tenant_id, "x", similarity=-1.0, limit=1000)
                near = msgspec.msgpack.decode(Connection(path).post("/v1/near", asked), type=NearRows)
            live = [row for (row,) in connection.execute('SELECT "row" FROM semantic_rows')]
    return {
        "kills": count,
        "rows": len(live),
        "index_equals_rows": sorted(row for row, _ in near.rows) == sorted(live),
    }


def _change(connection: sqlite3.Connection, draw: random.Random, tenant_id: str) -> None:
    """Adds a row or deletes one, under the next number, as the gateway does."""
    with connection:
        step = "UPDATE counters SET value = value + 1 WHERE name = 'semantic' RETURNING value"
        ((number,),) = connection.execute(step).fetchall()
        live = [row for (row,) in connection.execute('SELECT "row" FROM semantic_rows')]
        if len(live) > 500 or (live and draw.random() < 0.3):
            row = draw.choice(live)
            connection.execute('DELETE FROM semantic_rows WHERE "row" = ?', (row,))
            connection.execute('DELETE FROM semantic_vectors WHERE "row" = ?', (row,))
            connection.execute("INSERT INTO semantic_deletions VALUES (?, ?)", (number, row))
        else:
            connection.execute(_INSERT, _row(number, tenant_id))


def main() -> None:
    """Runs the parts asked for and prints what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--only", action="append", choices=["lookup", "recall", "throughput", "rebuild", "kills"])
    parser.add_argument("--sizes", default="1000,10000,100000,1000000")
    parser.add_argument("--count", type=int, default=300, help="look-ups per size")
    parser.add_argument("--threads", type=int, default=1, help="of the service's models")
    parser.add_argument("--seconds", type=float, default=10.0, help="of the throughput run")
    parser.add_argument("--rows", type=int, default=100_000, help="to rebuild")
    parser.add_argument("--kills", type=int, default=0)
    given = parser.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")]
    parts: dict[str, Callable[[], Any]] = {
        "lookup": lambda: lookups(sizes, given.count, given.threads),
        "recall": lambda: recall(sizes, given.threads),
        "throughput": lambda: throughput(given.seconds, given.threads),
        "rebuild": lambda: rebuild(given.rows, given.threads),
        "kills": lambda: kills(given.kills),
    }
    wanted = given.only or [name for name in parts if name != "kills" or given.kills]
    found: dict[str, Any] = {"cores": os.cpu_count(), "load": os.getloadavg(), "threads": given.threads}
    for name in wanted:
        found[name] = parts[name]()
        if not given.json:
            print(name, json.dumps(found[name], indent=2))
    if given.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
