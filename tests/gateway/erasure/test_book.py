"""Whoever asks after an erasure learns whether anybody still works on it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.db import Database, DataKeyRepository, PurgeRepository, TenantRepository
from gateway.db.erasing import ErasingRepository
from gateway.erasure.book import Erasures
from gateway.erasure.contract import Scope
from gateway.erasure.progress import LOST_AFTER_S, Progress
from gateway.erasure.work import Eraser, Records
from gateway.redis_link import RedisLink, RedisTarget
from gateway.telemetry.metrics import Metrics
from policies.erasure import StoreProof
from tests.servers.redis import RedisServer
from tests.servers.sqlite import open_migrated

BEAT_S = 0.05
STEPS = tuple((name, "running") for name in ("keys", "purge", "settle", "stuck"))


class StuckStore:
    """Works until it is let go, or its worker ends."""

    name = "stuck"

    def __init__(self) -> None:
        self.begun, self.let_go = asyncio.Event(), asyncio.Event()
        self.closed = self.broken = False

    async def erase(self, scope: Scope) -> StoreProof:
        """See Store."""
        del scope
        self.begun.set()
        await self.let_go.wait()
        if self.broken:
            raise RuntimeError("nobody thought of this")
        return StoreProof(self.name, 1, 1, 1, 0)

    async def close(self) -> None:
        """Notes that nobody works on it any more."""
        self.closed = True


class Desk:
    """One worker's erasures, the clock, and the worker's end."""

    def __init__(self, database: Database, link: RedisLink, tenant_id: str) -> None:
        self.now_s = 1000.0
        self.store = StuckStore()
        self._records = Records(
            TenantRepository(database),
            DataKeyRepository(database),
            PurgeRepository(database),
            ErasingRepository(database),
        )
        progress, key = Progress(link, beat_s=BEAT_S), b"k" * 32
        self.erasures = Erasures(self._records.erasing, progress, self._eraser, key, Metrics(), lambda: self.now_s)
        self.scope = Scope(tenant_id, "", False)

    def _eraser(self) -> Eraser:
        async def announced(*_: object) -> bool:
            return True

        async def known(_: str) -> None:
            return None

        told = (announced, known, lambda: self.now_s)
        return Eraser(self._records, [self.store], *told, closing=self.store.close, settle_s=0)

    async def state(self, erasure_id: str) -> tuple[str, tuple[tuple[str, str], ...]]:
        found = await self.erasures.find(erasure_id)
        assert found is not None
        return found.state, found.steps

    async def dies(self) -> None:
        """Ends what the worker was doing, as its loop's end does."""
        (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "erase")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def desk(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Desk]:
    database = await open_migrated(f"sqlite:///{tmp_path}/lamina.db")
    tenant = await TenantRepository(database).create("acme", "test", 1.0)
    target = RedisTarget.parse(redis_server.url)
    link = RedisLink(target, deadline_s=5, failures=50, retry_s=0.1, on_fault=lambda _: None)
    made = Desk(database, link, tenant.tenant_id)
    yield made
    made.store.let_go.set()
    await made.erasures.drained()
    await link.close()
    await database.close()


async def test_a_long_step_stays_running_also_when_redis_forgets(desk: Desk, redis_server: RedisServer) -> None:
    erasure = await desk.erasures.begin(desk.scope, "admin")
    await desk.store.begun.wait()
    desk.now_s += LOST_AFTER_S + 1
    assert await desk.state(erasure) == ("running", STEPS)
    redis_server.flush()
    assert await desk.state(erasure) == ("running", STEPS)
    desk.store.let_go.set()
    await desk.erasures.drained()
    assert (await desk.state(erasure))[0] == "done"
    assert desk.store.closed


async def test_one_whose_worker_is_gone_is_interrupted(desk: Desk, redis_server: RedisServer) -> None:
    erasure = await desk.erasures.begin(desk.scope, "admin")
    await desk.store.begun.wait()
    await desk.dies()
    desk.now_s += LOST_AFTER_S + 1
    assert (await desk.state(erasure))[0] == "running", "its last sign of life still counts"
    redis_server.flush()  # in place of waiting for it to expire
    assert (await desk.state(erasure))[0] == "interrupted"
    assert desk.store.closed
    await asyncio.sleep(2 * BEAT_S)
    assert (await desk.state(erasure))[0] == "interrupted", "and nobody goes on telling"


async def test_one_that_fails_says_by_what_and_is_over(desk: Desk) -> None:
    desk.store.broken = True
    desk.store.let_go.set()
    erasure = await desk.erasures.begin(desk.scope, "admin")
    await desk.erasures.drained()
    assert await desk.state(erasure) == ("failed", (("RuntimeError", "failed"),))
    assert desk.store.closed


async def test_without_redis_nobody_is_called_gone(desk: Desk, redis_server: RedisServer) -> None:
    erasure = await desk.erasures.begin(desk.scope, "admin")
    await desk.store.begun.wait()
    desk.now_s += LOST_AFTER_S + 1
    redis_server.kill()
    assert await desk.state(erasure) == ("running", ())


async def test_a_list_says_how_each_stands(desk: Desk, redis_server: RedisServer) -> None:
    lost = await desk.erasures.begin(desk.scope, "admin")
    await desk.store.begun.wait()
    await desk.dies()
    desk.store.begun.clear()
    running = await desk.erasures.begin(desk.scope, "admin")
    await desk.store.begun.wait()

    async def stood() -> list[tuple[str, str, bool | None]]:
        rows = await desk.erasures.begun(None, None, 10)
        return [(one.begun.target, one.state, one.complete) for one in await desk.erasures.standings(rows)]

    assert await stood() == [(running, "running", None), (lost, "running", None)]
    desk.now_s += LOST_AFTER_S + 1
    redis_server.flush()
    await asyncio.sleep(4 * BEAT_S)
    assert await stood() == [(running, "running", None), (lost, "interrupted", None)]
    desk.store.let_go.set()
    await desk.erasures.drained()
    redis_server.kill()
    assert await stood() == [(running, "done", True), (lost, "running", None)], "without Redis nobody is gone"
