"""Time to first token over HTTP: a cold prompt, and the same length with most of it cached."""

import http.client
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.engine.answering import ids_from
from bench.engine.contest import ROOT

_START_LIMIT_S = 120


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("engine", timeout=120)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket's path."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


@contextmanager
def serving(model: Path, threads: int, flags: list[str]) -> Iterator[Path]:
    """Run an engine server; its socket."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "engine.sock"
        argv = [sys.executable, "-m", "engine", "--model", str(model), "--name", "m", "--socket", str(path)]
        child = subprocess.Popen([*argv, "--threads", str(threads), *flags], cwd=ROOT)
        try:
            _wait(path, child)
            yield path
        finally:
            child.terminate()
            child.wait(timeout=30)


def first_token_s(path: Path, ids: list[int], salt: str = "bench") -> tuple[float, int]:
    """Seconds from sending a prompt of token ids to its first event of a stream, and its cached tokens."""
    body = {
        "model": "m",
        "prompt": ids,
        "max_tokens": 2,
        "temperature": 0,
        "ignore_eos": True,
        "cache_salt": salt,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    connection = _UnixConnection(path)
    began = time.perf_counter()
    connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
    reply = connection.getresponse()
    if reply.status != http.client.OK:
        raise RuntimeError(reply.read().decode())
    first: float | None = None
    cached = 0
    for line in reply:
        if not line.startswith(b"data: {"):
            continue
        event: dict[str, Any] = json.loads(line[len(b"data: ") :])
        if event["choices"] and first is None:
            first = time.perf_counter() - began
        if event.get("usage"):
            cached = event["usage"]["prompt_tokens_details"]["cached_tokens"]
    connection.close()
    if first is None:
        raise RuntimeError("a stream without a token")
    return first, cached


def measure(path: Path, rounds: int, prefix: int, tail: int, vocab: int) -> dict[str, list[float]]:
    """Cold and cached time to first token, taken in turn; each round has a prefix of its own."""
    found: dict[str, list[float]] = {"cold_s": [], "cached_s": [], "cached_tokens": []}
    first_token_s(path, ids_from(900, 64, vocab))
    for number in range(rounds):
        head = ids_from(1000 + number, prefix, vocab)
        cold, _ = first_token_s(path, head + ids_from(2000 + number, tail, vocab))
        warm, tokens = first_token_s(path, head + ids_from(3000 + number, tail, vocab))
        found["cold_s"].append(cold)
        found["cached_s"].append(warm)
        found["cached_tokens"].append(tokens)
    return found


def _wait(path: Path, child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline and child.poll() is None:
        try:
            connection = _UnixConnection(path)
            connection.request("GET", "/health")
            if connection.getresponse().status == http.client.OK:
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("the engine did not start")
