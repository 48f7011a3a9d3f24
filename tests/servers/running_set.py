"""A whole set in processes of its own, started and watched by a test."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_STARTS_WITHIN_S = 60.0
_SIGNS = {
    "redis": "redis-server",
    "worker": "gateway.worker",
    "engine": "engine.sock",
    "semantic": "semantic.sock",
}
"""What stands in a child's command line."""


class RunningSet:
    """One supervisor and its children, on a free port and in a home of the test's.

    Args:
        home: of the set; its output goes beside it.
        command: what runs the supervisor; `lamina serve` when absent.
        environment: variables on top of a clean environment.
    """

    def __init__(
        self, home: Path, environment: Mapping[str, str] | None = None, command: Sequence[str] | None = None
    ) -> None:
        self.home = home
        self._output = home.with_name(f"{home.name}.out")
        self._environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": os.environ.get("HOME", "/"),
            "PYTHONPATH": str(ROOT),
            "LAMINA_HOME": str(home),
            "LAMINA_PORT": "0",
            "LAMINA_CONFIG": "/dev/null",
            "LAMINA_DATABASE_DEADLINE_MS": "20000",  # a disk may stand still for seconds
            **(environment or {}),
        }
        self._command = list(command or [sys.executable, "-m", "gateway", "serve"])
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the supervisor."""
        assert self._process is not None
        return self._process.pid

    @property
    def output(self) -> str:
        """Everything the set has said so far."""
        return self._output.read_text("utf-8", "replace")

    @property
    def url(self) -> str:
        """Where it listens, as its ready line says."""
        found = re.search(r"Lamina is ready: (http://\S+)/v1", self.output)
        assert found is not None, self.output
        return found[1]

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rpartition(":")[2])

    def launch(self) -> "RunningSet":
        """Starts it without waiting."""
        with self._output.open("wb") as sink:
            self._process = subprocess.Popen(
                self._command, env=self._environment, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL, cwd=ROOT
            )
        return self

    def start(self, until: str = "Lamina is ready") -> "RunningSet":
        """Starts it and waits until it has said this."""
        self.launch()
        self.wait_for(lambda: until in self.output or self._ended())
        assert until in self.output, self.output
        return self

    def wait_for(self, condition: object, within_s: float = _STARTS_WITHIN_S) -> None:
        """Returns once the condition, a callable, holds."""
        assert callable(condition)
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, f"waited {within_s} s in vain\n{self.output}"
            time.sleep(0.02)

    def children(self) -> dict[str, int]:
        """Process ids by name: redis, engine, semantic, worker (the first one)."""
        return {name: found[0] for name, found in self._processes().items()}

    def workers(self) -> list[int]:
        """Process ids of all workers."""
        return self._processes().get("worker", [])

    def get(self, path: str, timeout_s: float = 10.0) -> str:
        """The body of a GET."""
        with urllib.request.urlopen(self.url + path, timeout=timeout_s) as answer:
            return str(answer.read(), "utf-8")

    def refuses_connections(self) -> bool:
        """Whether nobody listens any more."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) != 0

    def send(self, sent: signal.Signals) -> None:
        """Sends the supervisor a signal."""
        os.kill(self.pid, sent)

    def wait(self, within_s: float = 30.0) -> int:
        """The exit status, once it has ended."""
        assert self._process is not None
        return self._process.wait(within_s)

    def stop(self) -> int:
        """Ends it in order; returns the exit status."""
        if not self._ended():
            self.send(signal.SIGTERM)
        return self.wait()

    def close(self) -> None:
        """Makes sure that nothing is left of it."""
        if self._process is not None and not self._ended():
            self._process.kill()
            self._process.wait()

    def _processes(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        listing = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text("ascii")
        for pid in listing.split():
            words = _command_line(int(pid))
            for name, sign in _SIGNS.items():
                if sign in words and "leash.py" not in words:
                    found.setdefault(name, []).append(int(pid))
        return found

    def _ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""
