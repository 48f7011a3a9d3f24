"""The doctor at work: several workers' findings as one, no text leaves a worker, and nobody waits for it."""

from collections.abc import AsyncIterator

import pytest

from gateway.ledger import Called
from gateway.ledger.checkup import CHECKUPS_KEY, SPAN_S, Checkup
from gateway.redis_link import RedisLink, RedisTarget
from gateway.telemetry.metrics import Metrics
from policies.types import Json
from tests.gateway.http.wire import metric
from tests.servers.redis import RedisServer

RULES = "You are the help desk of a railway. Answer in two sentences and name the page of the handbook. " * 8


@pytest.fixture
async def link(redis_server: RedisServer) -> AsyncIterator[RedisLink]:
    one = RedisLink(
        RedisTarget.parse(redis_server.url),
        deadline_s=0.5,
        failures=3,
        retry_s=0.05,
        on_fault=lambda _reason: None,
    )
    await one.call("FLUSHALL")
    yield one
    await one.close()


def prompt(minute: int) -> Json:
    system = {"role": "system", "content": f"canary-{minute % 3} 10:{minute:02d} {RULES}"}
    return {"messages": [system, {"role": "user", "content": "When?"}]}


def call(tenant: str = "t1") -> Called:
    return Called(tenant, "m", "up", "a", "m", {"prompt_tokens": 300, "completion_tokens": 1}, 0.1)


async def test_workers_findings_add_up_and_quote_nothing(link: RedisLink) -> None:
    workers = [Checkup(link, Metrics(), lambda: 1000.0) for _ in range(2)]
    for worker in workers:
        for minute in range(10):
            worker.add(call(), prompt(minute))
        worker.add(call("t2"), prompt(1))
        await worker.look()
        await worker.write()
        await worker.write()
    found = await workers[0].diagnosis(lambda tenant: tenant == "t1")
    assert (found.requests, found.compared, found.tokens) == (20, 18, pytest.approx(6000))
    assert sum(one.requests for one in found.ailments) == 18
    assert {one.place for one in found.ailments} == {"messages[0].content"}
    assert found.lost_tokens > 4000
    assert (await workers[1].diagnosis(lambda tenant: tenant == "t2")).compared == 0
    stored = await link.call("HVALS", CHECKUPS_KEY)
    assert b"canary" not in b"".join(stored)


async def test_findings_of_yesterday_and_of_other_versions_do_not_count(link: RedisLink) -> None:
    clock = [1000.0]
    worker = Checkup(link, Metrics(), lambda: clock[0])
    for minute in range(3):
        worker.add(call(), prompt(minute))
    await worker.look()
    await worker.write()
    await link.call("HSET", CHECKUPS_KEY, "other", b"{}")
    assert (await worker.diagnosis(lambda _: True)).requests == 3
    clock[0] += SPAN_S + 1
    assert (await worker.diagnosis(lambda _: True)).requests == 0
    worker.add(call(), prompt(4))
    await worker.look()
    await worker.write()
    assert (await worker.diagnosis(lambda _: True)).requests == 1


async def test_too_many_prompts_are_left_out_and_odd_ones_are_counted(link: RedisLink) -> None:
    metrics = Metrics()
    worker = Checkup(link, metrics, lambda: 1000.0)
    for minute in range(500):
        worker.add(call(), prompt(minute % 60))
    await worker.look()
    await worker.write()
    assert 0 < (await worker.diagnosis(lambda _: True)).requests < 500
    worker.add(call(), {"messages": [{"role": "user", "content": [{1, 2}]}]})
    await worker.look()
    assert metric(metrics.exposition(), "lamina_faults_total", part="doctor") == 1
