"""The service as a process of its own, and the way to it."""

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from policies.nomination import Ask, Near, NearRows, Nominated, Pairs, Texts, Vectors, Verdicts

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")
ANSWERS: dict[type, tuple[str, type]] = {
    Ask: ("/v1/nominate", Nominated),
    Texts: ("/v1/embed", Vectors),
    Pairs: ("/v1/verify", Verdicts),
    Near: ("/v1/near", NearRows),
}


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=20)
        self._path = path

    def connect(self) -> None:
        """Connects to the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


@dataclass
class ServiceProcess:
    """`python -m semantic` on a Unix socket."""

    folder: Path
    database_url: str | None = None
    options: list[str] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None

    @property
    def path(self) -> Path:
        """Where it listens."""
        return self.folder / "s.sock"

    def start(self) -> None:
        """Starts the process; it is ready some seconds later."""
        command = [
            sys.executable,
            "-m",
            "semantic",
            "--socket",
            str(self.path),
            "--home",
            str(self.folder / "home"),
        ]
        if self.database_url:
            command += ["--database-url", self.database_url]
        log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen([*command, *self.options], cwd=ROOT, stderr=log, stdout=log)
        log.close()

    def wait_ready(self, timeout_s: float = 60) -> dict[str, Any]:
        """Waits until /health says 200."""
        ends = time.monotonic() + timeout_s
        while time.monotonic() < ends:
            assert self.process is not None
            assert self.process.poll() is None, self.said()
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, body = self.request("GET", "/health")
                if status == 200:
                    said: dict[str, Any] = json.loads(body)
                    return said
            time.sleep(0.05)
        raise TimeoutError(self.said())

    def kill(self) -> None:
        """Kills the process at once."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Asks the process to end, and waits."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)

    def said(self) -> str:
        """What it has logged."""
        return (self.folder / "log").read_text("utf-8", "replace")

    def request(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        """One request."""
        with contextlib.closing(_UnixConnection(self.path)) as connection:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()

    def ask(self, asked: Any) -> Any:
        """Sends a struct of `policies.nomination` and returns the answer's."""
        path, kind = ANSWERS[type(asked)]
        status, body = self.request("POST", path, msgspec.msgpack.encode(asked))
        assert status == 200, body
        return msgspec.msgpack.decode(body, type=kind)

    def ask_caught_up(self, asked: Ask, timeout_s: float = 30) -> Nominated:
        """Asks until the answer has reached what is asked for, however slow the machine."""
        ends = time.monotonic() + timeout_s
        while True:
            found: Nominated = self.ask(asked)
            if found.reached >= asked.at_least or time.monotonic() > ends:
                return found

    def metric(self, name: str) -> float:
        """The value of a metric without labels, or of one spelled with them."""
        lines = self.request("GET", "/metrics")[1].decode().splitlines()
        return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name + " "))


@contextlib.contextmanager
def service(folder: Path, database_url: str | None = None, *options: str) -> Iterator[ServiceProcess]:
    """Starts a service, waits until it is ready, and kills it in the end."""
    running = ServiceProcess(folder, database_url, list(options))
    running.start()
    try:
        running.wait_ready()
        yield running
    finally:
        running.kill()
