"""A whole engine server in a thread, on a real Unix socket, with a runner of the test's choosing."""

import contextlib
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import openai
import uvicorn

from engine.config import Address, EngineConfig
from engine.core import StepRunner
from engine.loader import open_checkpoint
from engine.pool import new_kv
from engine.server import http_config, listening
from engine.wiring import Loaded, assemble
from tests.engine import tiny

NAME = "tiny"


@dataclass
class Served:
    """A server that runs.

    Attributes:
        path: its socket.
    """

    path: Path

    def http(self) -> httpx2.AsyncClient:
        """A plain client."""
        transport = httpx2.AsyncHTTPTransport(uds=str(self.path))
        return httpx2.AsyncClient(transport=transport, base_url="http://engine", timeout=20)

    @contextlib.asynccontextmanager
    async def sdk(self) -> AsyncIterator[openai.AsyncOpenAI]:
        """The official client; it does not retry."""
        async with self.http() as http:
            client = openai.AsyncOpenAI(api_key="x", base_url="http://engine/v1", http_client=http, max_retries=0)
            yield client

    async def metric(self, name: str) -> float:
        """Read one sample of /metrics."""
        async with self.http() as http:
            text = (await http.get("/metrics")).text
        return next(
            float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"lamina_engine_{name} ")
        )


@contextlib.contextmanager
def serving(folder: Path, runner: StepRunner, config: EngineConfig | None = None) -> Iterator[Served]:
    """Serve until the block ends; then the thread is gone and so is the socket."""
    config = config or tiny.small_config()
    app = assemble(NAME, Loaded(config, open_checkpoint(folder), runner, new_kv(config)))
    with tempfile.TemporaryDirectory() as short:
        path = Path(short) / "e.sock"
        with listening(Address(path, "", 0)) as listener:
            server = uvicorn.Server(http_config(app, drain_s=2))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
            thread.start()
            deadline = time.monotonic() + 20
            while not server.started and time.monotonic() < deadline:
                time.sleep(0.005)
            try:
                yield Served(path)
            finally:
                server.should_exit = True
                thread.join(timeout=20)
        assert not thread.is_alive()
        assert not path.exists()
        assert not app.worker.alive
