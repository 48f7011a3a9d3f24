"""Looking through what is stored: whoever waits for a turn does so no longer than they said."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.db import PurgeRepository, TenantRepository
from gateway.db.row_pages import RowPages
from gateway.invalidation.replica import Replicas
from gateway.invalidation.stored import Place, Stored
from gateway.invalidation.survey import Survey
from gateway.layers.entry import Sealer
from gateway.redis_link import RedisLink, RedisTarget
from policies.purge_scopes import Purge
from tests.servers.redis import RedisServer
from tests.servers.sqlite import open_migrated

ALL = [Purge(1, "all", "", "hard")]


@pytest.fixture
async def survey(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Survey]:
    database = await open_migrated(f"sqlite:///{tmp_path}/lamina.db")
    sealer = Sealer(b"s" * 32)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Stored]:
        target = RedisTarget.parse(redis_server.url)
        link = RedisLink(target, deadline_s=5.0, failures=9, retry_s=1.0, on_fault=lambda _: None)
        try:
            yield Stored(link, RowPages(database), sealer)
        finally:
            await link.close()

    replicas = Replicas(TenantRepository(database), PurgeRepository(database), lambda *_: None)
    yield Survey(opened, sealer, replicas, time.time)
    await database.close()


async def test_a_wait_for_a_turn_ends_with_the_callers_time(survey: Survey) -> None:
    async with survey._turn, survey._turn:
        begun = time.monotonic()
        preview = await survey.preview("T1", ALL, within_s=0.2, sample=0)
        found = await survey.find("T1", ALL, begin=Place("semantic", 7), limit=5, within_s=0.2)
        assert time.monotonic() - begun < 3
    assert not preview.complete
    assert (found.items, found.next) == ((), Place("semantic", 7))
    assert (await survey.preview("T1", ALL, within_s=5.0, sample=0)).complete


async def test_turns_come_back_however_a_wait_ends(survey: Survey) -> None:
    async with survey._turn, survey._turn:
        waits = [asyncio.create_task(survey.preview("T1", ALL, within_s=9.0, sample=0)) for _ in range(3)]
        await asyncio.sleep(0.1)
        waits[0].cancel()
        late = await survey.preview("T1", ALL, within_s=0.05, sample=0)
    done = await asyncio.gather(*waits, return_exceptions=True)
    assert not late.complete
    assert isinstance(done[0], asyncio.CancelledError)
    assert [one.complete for one in done[1:] if not isinstance(one, BaseException)] == [True, True]
    assert not survey._turn.locked()
