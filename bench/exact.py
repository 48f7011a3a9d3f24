"""Exact hits and misses against their floors, in one run: `python -m bench.exact [--json]`.

The server under test runs alone on core 0 with one worker; wrk, Redis and the fake upstream share core 1. Rounds
go round robin over the servers, so that a disturbance of the machine touches all of them.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import redis
from pydantic import SecretStr

from bench.wrk import Figures, Load, drive, find_wrk
from gateway.db import Database, bootstrap
from gateway.settings import ModelSettings, ProviderSettings, Settings, child_environment, dump_resolved
from gateway.supervisor.embedded_redis import find_redis_server

_SERVER_CORE, _LOAD_CORE = 0, 1
_CONCURRENCY = (1, 32, 128)
_KEY = "lam_bench_key_0123456789"
_SYSTEM = "You are a helpful assistant that answers questions about geography briefly and kindly. " * 9
_QUESTION = "What is the capital of France, and since when has it been the capital? UNIQUE"


def request_body(*, stream: bool) -> str:
    """A chat request of about 1,300 bytes."""
    messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _QUESTION * 3}]
    body = {"model": "m", "messages": messages, "temperature": 0.2, "max_tokens": 256, "stream": stream}
    return json.dumps(body, separators=(",", ":"))


def free_port() -> int:
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextlib.contextmanager
def process(command: list[str], core: int, port: int | None) -> Iterator[None]:
    """A child on one core, until the block ends; waits until its port answers."""
    child = subprocess.Popen(["taskset", "-c", str(core), *command], stdout=subprocess.DEVNULL)
    try:
        if port is not None:
            _wait_for(port, child)
        yield
    finally:
        child.terminate()
        child.wait(20)


def _wait_for(port: int, child: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + 20
    while time.monotonic() < give_up and child.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise SystemExit(f"a server did not come up: {child.args!r}")


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """A Redis without persistence on a Unix socket."""
    path = str(folder / "redis.sock")
    options = ["--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no", "--dir", str(folder)]
    with process([str(find_redis_server()), *options], _LOAD_CORE, None):
        while not Path(path).exists():
            time.sleep(0.02)
        yield path


@contextlib.contextmanager
def lamina(folder: Path, redis_path: str, upstream_port: int) -> Iterator[int]:
    """One gateway worker, as the supervisor starts it."""
    home = folder / "home"
    home.mkdir(mode=0o700)
    settings = Settings(
        home=home,
        secret=SecretStr("b" * 40),
        redis_url=SecretStr(f"unix://{redis_path}"),
        database_url=SecretStr(f"sqlite:///{home / 'lamina.db'}"),
        engine={"enabled": False},  # type: ignore[arg-type]  # validated into EngineSettings
        providers={"up": ProviderSettings(base_url=f"http://127.0.0.1:{upstream_port}/v1")},
        models=(ModelSettings(name="m", provider="up"),),
    )
    asyncio.run(_prepare(settings))
    path = folder / "settings.json"
    path.write_text(dump_resolved(settings))
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    listener.set_inheritable(True)
    port = listener.getsockname()[1]
    command = [sys.executable, "-m", "gateway.worker", "--fd", str(listener.fileno()), "--settings", str(path)]
    shared = folder / "metrics"
    shared.mkdir()
    child = subprocess.Popen(
        ["taskset", "-c", str(_SERVER_CORE), *command],
        pass_fds=(listener.fileno(),),
        env=child_environment({"PROMETHEUS_MULTIPROC_DIR": str(shared)}),
        stdout=(folder / "lamina.log").open("wb"),
    )
    try:
        yield port
    finally:
        child.terminate()
        child.wait(30)
        listener.close()


async def _prepare(settings: Settings) -> None:
    database = Database.open(settings.database_url.get_secret_value() if settings.database_url else "")
    await database.migrate()
    await bootstrap(database, _KEY, time.time())
    await database.close()


def post(port: int, body: str) -> tuple[bytes, dict[str, str]]:
    """One request by hand."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        data=body.encode(),
        headers={"content-type": "application/json", "authorization": f"Bearer {_KEY}"},
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        return reply.read(), {name.lower(): value for name, value in reply.headers.items()}


def measure(seconds: float, rounds: int) -> dict[str, Any]:
    """The whole run."""
    find_wrk()
    with tempfile.TemporaryDirectory(prefix="lamina-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        redis_path = stack.enter_context(redis_server(folder))
        upstream = free_port()
        command = [sys.executable, "-m", "bench.fake_upstream", "--port", str(upstream)]
        stack.enter_context(process(command, _LOAD_CORE, upstream))
        port = stack.enter_context(lamina(folder, redis_path, upstream))
        reply = _warm(port, folder)
        floors = {kind: stack.enter_context(_floor(kind, reply, redis_path)) for kind in _FLOORS}
        _fill_floor(redis_path, reply.read_bytes())
        loads = _loads(port, floors, upstream)
        results = _rounds(loads, seconds, rounds, folder)
        counted = _counted(port)
    report = {"machine": _machine(), "seconds": seconds, "rounds": rounds, "results": results}
    return {**report, **_summary(results), "lookups": counted}


def _counted(port: int) -> dict[str, float]:
    """What Lamina itself counted: look-ups by result and faults; a run with faults measured something else."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
        text = reply.read().decode()
    lines = [
        line for line in text.splitlines() if line.startswith(("lamina_cache_lookups_total", "lamina_faults"))
    ]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if "_created" not in line}


_FLOORS = ("bare", "redis_get", "redis_get_pipelined")


@contextlib.contextmanager
def _floor(kind: str, reply: Path, redis_path: str) -> Iterator[int]:
    port = free_port()
    command = [sys.executable, "-m", "bench.floors", "--kind", kind, "--port", str(port)]
    with process([*command, "--reply", str(reply), "--redis", redis_path], _SERVER_CORE, port):
        yield port


def _warm(port: int, folder: Path) -> Path:
    """Makes the entries that are hit later; returns the bytes of a hit."""
    for stream in (False, True):
        post(port, request_body(stream=stream))
    body, headers = post(port, request_body(stream=False))
    if "hit" not in headers.get("cache-status", ""):
        raise SystemExit(f"no hit after a miss: {headers}")
    path = folder / "reply"
    path.write_bytes(body)
    return path


def _fill_floor(redis_path: str, reply: bytes) -> None:
    canonical = orjson.dumps(orjson.loads(request_body(stream=False)), option=orjson.OPT_SORT_KEYS)
    client = redis.Redis(unix_socket_path=redis_path)
    client.set("floor:" + hashlib.sha256(canonical).hexdigest(), reply)
    client.close()


def _loads(port: int, floors: dict[str, int], upstream: int) -> dict[str, tuple[Load, tuple[int, ...]]]:
    whole, stream = request_body(stream=False), request_body(stream=True)

    def at(number: int, body: str, *, unique: bool = False) -> Load:
        return Load(f"http://127.0.0.1:{number}/v1/chat/completions", _KEY, body, unique=unique)

    loads: dict[str, tuple[Load, tuple[int, ...]]] = {
        "lamina_hit": (at(port, whole), _CONCURRENCY),
        "lamina_hit_stream": (at(port, stream), _CONCURRENCY),
    }
    loads |= {kind: (at(number, whole), _CONCURRENCY) for kind, number in floors.items()}
    loads["upstream_direct"] = (at(upstream, whole, unique=True), (1, 32))
    loads["lamina_miss"] = (at(port, whole, unique=True), (1, 32))
    loads["upstream_direct_stream"] = (at(upstream, stream, unique=True), (1, 32))
    loads["lamina_miss_stream"] = (at(port, stream, unique=True), (1, 32))
    return loads


def _rounds(
    loads: dict[str, tuple[Load, tuple[int, ...]]], seconds: float, rounds: int, folder: Path
) -> dict[str, dict[str, Any]]:
    runs: dict[tuple[str, int], list[dict[str, float]]] = {}
    for load, _ in loads.values():
        drive(load, 8, 1, _LOAD_CORE, folder)
    for number in range(rounds):
        for name, (load, levels) in loads.items():
            for level in levels:
                print(f"round {number + 1}/{rounds} {name} c={level}", file=sys.stderr)
                runs.setdefault((name, level), []).append(drive(load, level, seconds, _LOAD_CORE, folder))
    results: dict[str, dict[str, Any]] = {}
    for (name, level), figures in runs.items():
        results.setdefault(name, {})[f"c{level}"] = asdict(Figures.of(figures))
    return results


def _summary(results: dict[str, dict[str, Any]]) -> dict[str, float]:
    def rate(name: str, level: str) -> float:
        return float(results[name][level]["rps"])

    def p50(name: str) -> float:
        return float(results[name]["c1"]["p50_ms"])

    return {
        "ratio_to_redis_get_c32": round(rate("lamina_hit", "c32") / rate("redis_get", "c32"), 3),
        "ratio_to_redis_get_pipelined_c32": round(
            rate("lamina_hit", "c32") / rate("redis_get_pipelined", "c32"), 3
        ),
        "ratio_to_bare_c32": round(rate("lamina_hit", "c32") / rate("bare", "c32"), 3),
        "hit_p50_c1_ms": p50("lamina_hit"),
        "stream_cost_ratio_c32": round(rate("lamina_hit", "c32") / rate("lamina_hit_stream", "c32"), 3),
        "miss_added_p50_c1_ms": round(p50("lamina_miss") - p50("upstream_direct"), 3),
        "miss_rps_c32": rate("lamina_miss", "c32"),
        "bad_replies": float(sum(level["bad"] for levels in results.values() for level in levels.values())),
    }


def _machine() -> dict[str, Any]:
    return {"cores": os.cpu_count(), "python": platform.python_version(), "load_before": os.getloadavg()[0]}


def main() -> None:
    """Reads the command line, prints a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one wrk run")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    report = measure(given.seconds, given.rounds)
    if given.json:
        print(json.dumps(report, indent=1))
        return
    for name, levels in report["results"].items():
        for level, figures in levels.items():
            print(
                f"{name:24} {level:5} {figures['rps']:9.0f} req/s  p50 {figures['p50_ms']:7.3f} ms  "
                f"p99 {figures['p99_ms']:7.2f} ms  bad {figures['bad']}"
            )
    for name, value in report.items():
        if isinstance(value, float | int) and name not in ("seconds", "rounds"):
            print(f"{name:36} {value}")
    for name, count in report["lookups"].items():
        print(f"{count:9.0f} {name}")


if __name__ == "__main__":
    main()
