"""Two gateways as replicas over one Redis and one PostgreSQL, all real, all to be killed."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from bench.exact import free_port
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer
from tests.servers.running_set import RunningSet

_STARTS_WITHIN_S = 300.0
_MODELS = [
    {"name": "m", "provider": "up"},
    {"name": "n", "provider": "up", "upstream_model": "big", "aliases": ["nn"]},
]
KEY, ADMIN = "lam_benchmark_of_purges_0123456789", "lam_admin_of_purges_0123456789012345"


@dataclass(slots=True)
class Stand:
    """The parts.

    Attributes:
        ports: where the replicas listen, also after they were killed.
        folder: for an older snapshot.
    """

    replicas: list[RunningSet]
    ports: list[int]
    redis: RedisServer
    postgres: PostgresServer
    folder: Path

    async def kill_worker(self, number: int) -> None:
        """The process that serves; its supervisor starts another."""
        for pid in self.replicas[number].workers():
            os.kill(pid, signal.SIGKILL)

    async def kill_replica(self, number: int) -> None:
        """The whole replica, then it is started anew."""
        replica = self.replicas[number]
        workers = replica.workers()
        os.kill(replica.pid, signal.SIGKILL)
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(replica.wait)
        await asyncio.to_thread(_start, replica)

    async def kill_redis(self) -> None:
        """It comes back with whatever its last snapshot held, or nothing."""
        await asyncio.to_thread(self.redis.kill)
        await asyncio.sleep(0.3)
        await asyncio.to_thread(self.redis.start)

    async def flush_redis(self) -> None:
        """FLUSHALL."""
        await asyncio.to_thread(self.redis.flush)

    async def snapshot_redis(self) -> None:
        """Keeps what Redis holds now, for `fail_over_redis`."""
        await asyncio.to_thread(self.redis.command, "SAVE")
        shutil.copy(self.redis.folder / "redis.rdb", self.folder / "older.rdb")

    async def fail_over_redis(self) -> None:
        """Another Redis takes over that never saw the writes since the snapshot."""
        await asyncio.to_thread(self.redis.kill)
        shutil.copy(self.folder / "older.rdb", self.redis.folder / "redis.rdb")
        await asyncio.to_thread(self.redis.start)

    async def kill_postgres(self) -> None:
        """It recovers from its log."""
        await asyncio.to_thread(self.postgres.kill)
        await asyncio.sleep(0.3)
        await asyncio.to_thread(self.postgres.start)


@contextlib.asynccontextmanager
async def stand(upstream_url: str) -> AsyncIterator[Stand]:
    """Everything, running; nothing is left of it afterwards."""
    with tempfile.TemporaryDirectory(prefix="lam-chaos-") as name, contextlib.ExitStack() as parts:
        folder = Path(name)
        redis = RedisServer()
        parts.callback(redis.close)
        postgres = PostgresServer()
        parts.callback(postgres.stop)
        await asyncio.to_thread(redis.start)
        await asyncio.to_thread(postgres.start)
        database_url = parts.enter_context(postgres.database())
        ports = [free_port(), free_port()]
        replicas = []
        for number, port in enumerate(ports):
            home = folder / f"replica-{number}"
            replica = RunningSet(home, _environment(port, redis.url, database_url, upstream_url))
            parts.callback(replica.close)
            replicas.append(replica)
        for replica in replicas:
            await asyncio.to_thread(_start, replica)
        try:
            yield Stand(replicas, ports, redis, postgres, folder)
        finally:
            for replica in replicas:
                await asyncio.to_thread(replica.stop)


def _start(replica: RunningSet) -> None:
    """Starts it, however busy the machine is."""
    replica.launch()
    replica.wait_for(lambda: "Lamina is ready" in replica.output, _STARTS_WITHIN_S)


def _environment(port: int, redis_url: str, database_url: str, upstream_url: str) -> dict[str, str]:
    return {
        "LAMINA_PORT": str(port),
        "LAMINA_WORKERS": "1",
        "LAMINA_SECRET": "s" * 40,
        "LAMINA_BOOTSTRAP_KEY": KEY,
        "LAMINA_ADMIN_KEY": ADMIN,
        "LAMINA_REDIS_URL": redis_url,
        "LAMINA_DATABASE_URL": database_url,
        "LAMINA_ENGINE__ENABLED": "false",
        "LAMINA_PROVIDERS": json.dumps({"up": {"base_url": upstream_url}}),
        "LAMINA_MODELS": json.dumps(_MODELS),
    }
