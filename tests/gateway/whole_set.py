"""A real `lamina serve` with two workers over a scripted upstream, and the real `lamina` beside it."""

import asyncio
import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.gateway.http.wire import Line, Pair, Reply, chat_request, metric, said
from tests.gateway.stand import KEY
from tests.servers.running_set import ROOT, RunningSet
from tests.upstream import Upstream

_BURST = 6
_FIGURES_SETTLE_S = 0.5  # figures of another worker are at most 0.05 s old


@dataclass(frozen=True, slots=True)
class Said:
    """What a command of `lamina` said."""

    status: int
    data: dict[str, Any]
    error: str


@dataclass(slots=True)
class WholeSet:
    """A running set; `url` makes it fit the functions of `wire`."""

    running: RunningSet
    socket_of_upstream: Path
    url: str = ""

    async def start(self) -> None:
        """Starts it; returns when it is ready."""
        await asyncio.to_thread(self.running.start)
        self.url = self.running.url

    def events(self, name: str) -> list[dict[str, Any]]:
        """The log's events of this name, in order."""
        lines = (line for line in self.running.output.splitlines() if line.startswith("{") and line.endswith("}"))
        return [event for event in map(json.loads, lines) if event["event"] == name]

    async def worker_of(self, reply: Reply) -> int:
        """The worker that answered, as its log says."""
        asked = reply["x-request-id"]
        found: list[int] = []

        def logged() -> bool:
            found.extend(event["worker"] for event in self.events("request") if event["request_id"] == asked)
            return bool(found)

        await until(logged, within_s=2)
        return found[0]

    @asynccontextmanager
    async def lines(self) -> AsyncIterator[dict[int, Line]]:
        """One connection to each worker, by process id."""
        wanted = set(self.running.workers())
        assert len(wanted) == 2
        found: dict[int, Line] = {}
        try:
            async with asyncio.timeout(10):
                while found.keys() != wanted:
                    burst = [await Line.open(self) for _ in range(_BURST)]
                    replies = await asyncio.gather(*(say(line, "which worker are you?") for line in burst))
                    for line, reply in zip(burst, replies, strict=True):
                        if found.setdefault(await self.worker_of(reply), line) is not line:
                            await line.close()
            yield found
        finally:
            for line in found.values():
                await line.close()

    async def lamina(self, *words: str) -> Said:
        """Runs a command of the real `lamina` on the same home."""
        environment = {"PATH": os.environ["PATH"], "LAMINA_HOME": str(self.running.home)}
        environment |= {"LAMINA_CONFIG": os.devnull, "LAMINA_DATABASE_DEADLINE_MS": "20000"}
        command = (sys.executable, "-m", "gateway", *words, "--json")
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(*command, env=environment, cwd=ROOT, stdout=pipe, stderr=pipe)
        out, err = await child.communicate()
        return Said(child.returncode or 0, json.loads(out) if out else {}, err.decode())

    async def done(self, *words: str) -> dict[str, Any]:
        """The same, for a command that must not fail."""
        told = await self.lamina(*words)
        assert told.status == 0, told
        return told.data

    async def page(self) -> bytes:
        """The metrics, once what was counted before is in them."""
        await asyncio.sleep(_FIGURES_SETTLE_S)
        return (await asyncio.to_thread(self.running.get, "/metrics")).encode()

    async def figure(self, name: str, **labels: str) -> float:
        """One of the metrics, as it is now."""
        return metric((await asyncio.to_thread(self.running.get, "/metrics")).encode(), name, **labels)

    def redis(self, *words: str) -> bytes:
        """One command to the embedded Redis."""
        parts = [f"${len(word)}\r\n{word}\r\n" for word in words]
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(str(self.running.home / "run" / "redis.sock"))
            connection.sendall(f"*{len(words)}\r\n{''.join(parts)}".encode())
            return connection.recv(4096)

    @contextmanager
    def stopped(self, pid: int) -> Iterator[None]:
        """Freezes a process for the time of the block."""
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def kill(self, name: str) -> int:
        """Kills a child; returns the process id it had."""
        pid = self.running.children()[name]
        os.kill(pid, signal.SIGKILL)
        return pid


@contextmanager
def whole_set(home: Path, *, semantic: str = "semantic", **environment: str) -> Iterator[WholeSet]:
    """A set that is not started yet, over an upstream that the test opens with `upstream_of`.

    Args:
        home: of the set.
        semantic: module of the semantic service.
        environment: further variables.
    """
    with tempfile.TemporaryDirectory(prefix="lam-up-") as folder:
        path = Path(folder) / "up.sock"
        usual = {
            "LAMINA_WORKERS": "2",
            "LAMINA_BOOTSTRAP_KEY": KEY,
            "LAMINA_ENGINE__ENABLED": "false",
            "LAMINA_PROVIDERS": json.dumps({"up": {"base_url": f"unix://{path}"}}),
            "LAMINA_MODELS": json.dumps([{"name": "m", "provider": "up"}]),
        }
        script = ROOT / "tests" / "gateway" / "supervisor" / "run_set.py"
        command = [sys.executable, str(script), "gateway.app:create_app", "engine", semantic]
        running = RunningSet(home, usual | environment, None if semantic == "semantic" else command)
        try:
            yield WholeSet(running, path)
        finally:
            running.close()


def upstream_of(it: WholeSet) -> Upstream:
    """The set's model provider, to be opened."""
    return Upstream(path=it.socket_of_upstream)


async def say(line: Line, text: str, *headers: Pair, key: str | None = KEY, **fields: Any) -> Reply:
    """One question on an open connection."""
    await line.send(chat_request(said(text, **fields), headers, key))
    return await line.reply()


async def until(condition: Callable[[], bool | Awaitable[bool]], within_s: float = 10.0) -> None:
    """Returns once the condition holds."""
    async with asyncio.timeout(within_s):
        while True:
            holds = condition()
            if await holds if isinstance(holds, Awaitable) else holds:
                return
            await asyncio.sleep(0.02)
