"""Whoever asks after an erasure learns whether anybody still works on it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.db import Database, TenantRepository
from gateway.db.erasing import ErasingRepository
from gateway.erasure.book import Erasures
from gateway.erasure.contract import Scope
from gateway.erasure.progress import LOST_AFTER_S, Progress
from gateway.erasure.work import Order, Told
from gateway.errors import StoreUnavailable
from gateway.redis_link import RedisLink, RedisTarget
from gateway.telemetry.metrics import Metrics
from policies.erasure import Report
from tests.servers.redis import RedisServer

BEAT_S = 0.05


class StuckEraser:
    """Begins, and then works until it is let go, or its worker ends."""

    steps = ("keys", "purge")

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.closed = False

    async def run(self, order: Order, told: Told) -> Report:  # noqa: ARG002  (its shape)
        await told("keys", "running")
        await self.let_go.wait()
        raise StoreUnavailable("it was let go")

    async def close(self) -> None:
        self.closed = True


class Desk:
    """One worker's erasures, the clock, and the worker's end."""

    def __init__(self, database: Database, link: RedisLink, tenant_id: str) -> None:
        self.now_s = 1000.0
        self.eraser = StuckEraser()
        progress = Progress(link, beat_s=BEAT_S)
        make = lambda: self.eraser  # noqa: E731
        self.erasures = Erasures(
            ErasingRepository(database),
            progress,
            make,
            b"k" * 32,
            Metrics(),
            lambda: self.now_s,  # type: ignore[arg-type]
        )
        self.scope = Scope(tenant_id, "", False)

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
    database = Database.open(f"sqlite:///{tmp_path}/lamina.db", deadline_s=20)
    await database.migrate()
    tenant = await TenantRepository(database).create("acme", "test", 1.0)
    target = RedisTarget.parse(redis_server.url)
    link = RedisLink(target, deadline_s=5, failures=50, retry_s=0.1, on_fault=lambda _: None)
    made = Desk(database, link, tenant.tenant_id)
    yield made
    made.eraser.let_go.set()
    await made.erasures.drained()
    await link.close()
    await database.close()


async def test_a_long_step_stays_running_also_when_redis_forgets(desk: Desk, redis_server: RedisServer) -> None:
    erasure = await desk.erasures.begin(desk.scope, "admin")
    await asyncio.sleep(2 * BEAT_S)
    desk.now_s += LOST_AFTER_S + 1
    assert await desk.state(erasure) == ("running", (("keys", "running"),))
    redis_server.flush()
    assert await desk.state(erasure) == ("running", (("keys", "running"),))
    desk.eraser.let_go.set()
    await desk.erasures.drained()
    state, ((why, _),) = await desk.state(erasure)
    assert (state, why) == ("failed", "StoreUnavailable: it was let go")
    assert desk.eraser.closed


async def test_one_whose_worker_is_gone_is_interrupted(desk: Desk, redis_server: RedisServer) -> None:
    erasure = await desk.erasures.begin(desk.scope, "admin")
    await asyncio.sleep(2 * BEAT_S)
    await desk.dies()
    desk.now_s += LOST_AFTER_S + 1
    assert (await desk.state(erasure))[0] == "running", "its last sign of life still counts"
    redis_server.flush()  # in place of waiting for it to expire
    assert (await desk.state(erasure))[0] == "interrupted"
    assert desk.eraser.closed
    await asyncio.sleep(2 * BEAT_S)
    assert (await desk.state(erasure))[0] == "interrupted", "and nobody goes on telling"


async def test_without_redis_nobody_is_called_gone(desk: Desk, redis_server: RedisServer) -> None:
    erasure = await desk.erasures.begin(desk.scope, "admin")
    desk.now_s += LOST_AFTER_S + 1
    redis_server.kill()
    assert await desk.state(erasure) == ("running", ())


async def test_a_list_says_how_each_stands(desk: Desk, redis_server: RedisServer) -> None:
    lost = await desk.erasures.begin(desk.scope, "admin")
    await asyncio.sleep(2 * BEAT_S)
    await desk.dies()
    running = await desk.erasures.begin(desk.scope, "admin")

    async def stood() -> list[tuple[str, str, bool | None]]:
        rows = await desk.erasures.begun(None, None, 10)
        return [(one.begun.target, one.state, one.complete) for one in await desk.erasures.standings(rows)]

    assert await stood() == [(running, "running", None), (lost, "running", None)]
    desk.now_s += LOST_AFTER_S + 1
    redis_server.flush()
    await asyncio.sleep(4 * BEAT_S)
    assert await stood() == [(running, "running", None), (lost, "interrupted", None)]
    desk.eraser.let_go.set()
    await desk.erasures.drained()
    redis_server.kill()
    assert await stood() == [(running, "failed", None), (lost, "running", None)], "without Redis nobody is gone"
