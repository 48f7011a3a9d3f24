"""Identical concurrent misses over several workers and replicas, and how many model calls they make.

`python -m bench.coalescing [--json] [--call-s 1]`: two replicas of two workers each over one Redis and one SQLite
file, as the supervisor starts workers; an upstream whose answers, streamed or whole, take `--call-s` seconds.
Clients, upstream and Redis share the machine with the workers, so what the machine cannot do at once shows in the
tail: `bare` is the same crowd straight to the upstream.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from bench.exact import free_port
from gateway.db import Database, KeyRepository, TenantRepository, bootstrap
from gateway.settings import ModelSettings, ProviderSettings, Settings, child_environment, dump_resolved
from gateway.supervisor.embedded_redis import find_redis_server
from tests.upstream import Script, Upstream

_KEY = "lam_bench_key_0123456789"
_PIECE_S = 0.04
_WITHIN_S = 120


@dataclass(slots=True)
class Fleet:
    """Replicas that run: their ports, the workers' processes, and what stands around them."""

    ports: list[int]
    workers: list[subprocess.Popen[bytes]]
    upstream: Upstream
    keys: list[str]


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply: status, body, and seconds to its first and last byte."""

    status: int
    body: bytes
    first_s: float
    last_s: float


async def ask(port: int, key: str, text: str, *, stream: bool) -> Reply:
    """One request on a connection of its own."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}], "stream": stream}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: b\r\nauthorization: Bearer {key}\r\nconnection: close\r\n"
    begun = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    first = await reader.read(1)
    first_s = time.perf_counter() - begun
    whole = first
    while not whole.endswith(b"0\r\n\r\n") and (more := await reader.read(1 << 16)):
        whole += more
        if b"content-length: " in whole[:600] and whole.endswith(b"}"):
            break
    writer.close()
    return Reply(int(whole[9:12] or b"0"), whole, first_s, time.perf_counter() - begun)


async def crowd(ports: list[int], keys: list[str], count: int, text: str) -> list[Reply]:
    """So many requests at once, over all ports and keys in turn, every second one a stream."""
    asked = (
        ask(ports[at % len(ports)], keys[at // len(ports) % len(keys)], text, stream=at // 2 % 2 == 0)
        for at in range(count)
    )
    async with asyncio.timeout(_WITHIN_S):
        return list(await asyncio.gather(*asked))


@contextlib.asynccontextmanager
async def fleet(
    replicas: int = 2, workers: int = 2, tenants: int = 1, call_s: float = 1.0, **cache: Any
) -> AsyncIterator[Fleet]:
    """Replicas of workers over one Redis, one database and one upstream."""
    with tempfile.TemporaryDirectory(prefix="lam-co-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        redis_path = stack.enter_context(_redis(folder))
        async with Upstream() as upstream:
            pieces = tuple(f"word{at} " for at in range(round(call_s / _PIECE_S)))
            upstream.default = Script(pieces=pieces, piece_delay_s=_PIECE_S, whole_delay_s=call_s)
            settings = _settings(folder, redis_path, upstream, cache)
            keys = await _prepared(settings, tenants)
            path = folder / "settings.json"
            path.write_text(dump_resolved(settings))
            ports, children = [], []
            for _ in range(replicas):
                port, started = stack.enter_context(_replica(folder, path, workers))
                ports.append(port)
                children += started
            await _listening(redis_path, len(children))
            yield Fleet(ports, children, upstream, keys)


def _settings(folder: Path, redis_path: str, upstream: Upstream, cache: dict[str, Any]) -> Settings:
    home = folder / "home"
    home.mkdir(mode=0o700)
    return Settings.model_validate(
        {
            "home": home,
            "workers": 2,
            "secret": SecretStr("b" * 40),
            "redis_url": SecretStr(f"unix://{redis_path}"),
            "database_url": SecretStr(f"sqlite:///{home / 'lamina.db'}"),
            "engine": {"enabled": False},
            "redis": {"deadline_ms": 1000},
            "cache": {"coalescing_deadline_ms": 1000, **cache},
            "guards": {"enabled": False},
            "providers": {"up": ProviderSettings(base_url=upstream.base_url)},
            "models": (ModelSettings(name="m", provider="up"),),
        }
    )


async def _prepared(settings: Settings, tenants: int) -> list[str]:
    database = Database.open(settings.database_url.get_secret_value() if settings.database_url else "")
    await database.migrate()
    await bootstrap(database, _KEY, time.time())
    keys = [_KEY]
    for number in range(1, tenants):
        await TenantRepository(database).create(f"tenant{number}", "bench", time.time())
        keys.append((await KeyRepository(database).create(f"tenant{number}", "bench", "bench", time.time()))[1])
    await database.close()
    return keys


@contextlib.contextmanager
def _redis(folder: Path) -> Iterator[str]:
    path = str(folder / "redis.sock")
    options = ["--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no", "--dir", str(folder)]
    child = subprocess.Popen([str(find_redis_server()), *options], stdout=subprocess.DEVNULL)
    try:
        while not Path(path).exists():
            time.sleep(0.02)
        yield path
    finally:
        child.terminate()
        child.wait(20)


@contextlib.contextmanager
def _replica(folder: Path, path: Path, workers: int) -> Iterator[tuple[int, list[subprocess.Popen[bytes]]]]:
    listener = socket.create_server(("127.0.0.1", free_port()), backlog=2048)
    listener.set_inheritable(True)
    command = [sys.executable, "-m", "gateway.worker", "--fd", str(listener.fileno()), "--settings", str(path)]
    with (folder / "workers.log").open("ab") as log:
        children = [
            subprocess.Popen(command, pass_fds=(listener.fileno(),), env=child_environment({}), stdout=log)
            for _ in range(workers)
        ]
    try:
        yield listener.getsockname()[1], children
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.wait(30)
        listener.close()


async def _listening(redis_path: str, workers: int) -> None:
    """Returns when every worker hears of the others."""
    async with asyncio.timeout(240):
        while True:
            reader, writer = await asyncio.open_unix_connection(redis_path)
            writer.write(b"PUBSUB CHANNELS lamina:inbox:*\r\n")
            listed = await reader.readline()
            writer.close()
            if listed == b"*%d\r\n" % workers:
                return
            await asyncio.sleep(0.05)


def _figures(replies: list[Reply], calls: int) -> dict[str, Any]:
    lasts = sorted(reply.last_s for reply in replies)
    firsts = sorted(reply.first_s for reply in replies if b"text/event-stream" in reply.body[:600])
    cuts = statistics.quantiles(lasts, n=100)
    return {
        "requests": len(replies),
        "not_200": sum(reply.status != 200 for reply in replies),
        "answers": len({reply.body.count(b"word") for reply in replies}),
        "model_calls": calls,
        "first_byte_p50_s": round(statistics.median(firsts), 3),
        "p50_s": round(cuts[49], 3),
        "p99_s": round(cuts[98], 3),
        "max_s": round(lasts[-1], 3),
    }


async def measure(count: int, rounds: int, call_s: float) -> dict[str, Any]:
    """The whole run."""
    async with fleet(tenants=2, call_s=call_s) as it:
        for at in range(8):  # warm: connections, credentials, code
            await crowd(it.ports, it.keys, 8, f"warm {at}")
        alone = [(await ask(it.ports[0], _KEY, f"alone {at}", stream=True)).last_s for at in range(3)]
        one_s = statistics.median(alone)
        found: dict[str, Any] = {"one_call_s": round(one_s, 3), "rounds": []}
        for at in range(rounds):
            before = it.upstream.count
            figures = _figures(await crowd(it.ports, [_KEY], count, f"round {at}"), it.upstream.count - before)
            found["rounds"].append(figures | {"p99_by_one_call": round(figures["p99_s"] / one_s, 2)})
        before = it.upstream.count
        replies = await crowd(it.ports, it.keys, count, "two tenants")
        found["two_tenants"] = _figures(replies, it.upstream.count - before)
        upstream_port = int(it.upstream.base_url.rpartition(":")[2].removesuffix("/v1"))
        before = it.upstream.count
        bare = await crowd([upstream_port], [_KEY], count, "bare")
        found["bare"] = _figures(bare, it.upstream.count - before)
    return found


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--call-s", type=float, default=1.0)
    options = parser.parse_args()
    found = asyncio.run(measure(options.requests, options.rounds, options.call_s))
    found["machine"] = {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}
    sys.stdout.write(json.dumps(found, indent=None if options.json else 2) + "\n")


if __name__ == "__main__":
    main()
