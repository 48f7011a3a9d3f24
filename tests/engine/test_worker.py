"""The thread and the event loop: events arrive in order, aborts act at once, faults reach every client."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from engine.core import Core
from engine.errors import RequestError
from engine.events import FinishReason, TokenEvent
from engine.kv.wishes import CacheWishes
from engine.sampling import SamplingParams
from engine.worker import Generation, Job, QueueLimits, Worker
from tests.engine.fakes import CountingObserver, Gate, ScriptedRunner, build_core, script

GREEDY = SamplingParams(max_tokens=20, temperature=0)


def job(n: int = 1, params: SamplingParams = GREEDY) -> Job:
    return Job((5, 6, 7), params, n)


@pytest.fixture
def workers() -> Iterator[list[Worker]]:
    made: list[Worker] = []
    yield made
    for worker in made:
        worker.stop(5.0)
        assert not worker.alive


def start(workers: list[Worker], core: Core, max_open: int = 8, per_tenant: int = 8) -> Worker:
    worker = Worker(core, QueueLimits(max_open, per_tenant), time.monotonic)
    worker.start(asyncio.get_running_loop())
    workers.append(worker)
    return worker


async def collect(generation: Generation) -> list[TokenEvent]:
    events: list[TokenEvent] = []
    while generation.open_ids or not generation.events.empty():
        event = await asyncio.wait_for(generation.events.get(), timeout=10)
        assert isinstance(event, TokenEvent)
        events.append(event)
    return events


async def until(gate: Gate) -> None:
    assert await asyncio.to_thread(gate.entered.wait, 10)


async def test_each_sample_gets_its_events_in_order(workers: list[Worker]) -> None:
    worker = start(workers, build_core(ScriptedRunner(300, script("abc"))))
    events = await collect(worker.submit(job(n=3)))
    for index in range(3):
        own = [event for event in events if event.sample_index == index]
        assert [event.text for event in own] == ["a", "b", "c", ""]
        assert [event.num_output for event in own] == [1, 2, 3, 4]
        assert own[-1].finish is FinishReason.STOP
    assert worker.num_open == 0


async def test_samples_without_a_seed_draw_their_own(workers: list[Worker]) -> None:
    worker = start(workers, build_core(ScriptedRunner(300)))
    seeds = set()
    core = worker._core
    add = core.add

    def spy(sequence: object) -> list[TokenEvent]:
        seeds.add(sequence.seed)
        return add(sequence)

    core.add = spy
    for _ in range(4):
        await collect(worker.submit(job()))
    await collect(worker.submit(job(params=SamplingParams(max_tokens=1, seed=77))))
    assert len(seeds) == 5
    assert 77 in seeds


async def test_a_full_queue_is_429_with_a_time_to_wait(workers: list[Worker]) -> None:
    gate = Gate()
    worker = start(workers, build_core(ScriptedRunner(300, before=gate)), max_open=3)
    first = worker.submit(job(n=2))
    with pytest.raises(RequestError) as caught:
        worker.submit(job(n=2))
    assert (caught.value.status, caught.value.code) == (429, "rate_limit_exceeded")
    assert 1 <= (caught.value.retry_after_s or 0) <= 60
    second = worker.submit(job())
    gate.opened.set()
    await collect(first)
    await collect(second)
    await collect(worker.submit(job(n=3)))


async def test_what_could_never_be_queued_is_refused_for_good(workers: list[Worker]) -> None:
    worker = start(workers, build_core(ScriptedRunner(300)), max_open=6, per_tenant=4)
    for jobs in ([job(n=5)], [job(n=3), job(n=2)]):
        with pytest.raises(RequestError) as caught:
            worker.submit(*jobs)
        assert (caught.value.status, caught.value.param, caught.value.retry_after_s) == (400, "n", None)
    assert worker.num_open == 0


async def test_one_tenant_cannot_fill_the_queue(workers: list[Worker]) -> None:
    gate = Gate()
    worker = start(workers, build_core(ScriptedRunner(300, before=gate)), max_open=6, per_tenant=4)
    first = worker.submit(replace(job(n=4), cache=CacheWishes("greedy")))
    with pytest.raises(RequestError) as caught:
        worker.submit(replace(job(), cache=CacheWishes("greedy")))
    assert (caught.value.status, caught.value.reason) == (429, "tenant_queue_full")
    second = worker.submit(replace(job(n=2), cache=CacheWishes("modest")))
    with pytest.raises(RequestError) as caught:
        worker.submit(replace(job(), cache=CacheWishes("third")))
    assert caught.value.reason == "queue_full"
    gate.opened.set()
    await collect(first)
    await collect(second)
    await collect(worker.submit(replace(job(n=4), cache=CacheWishes("greedy"))))


async def test_answers_to_one_prompt_are_computed_once(workers: list[Worker]) -> None:
    computed: list[int] = []
    runner = ScriptedRunner(300, script("ab"), before=lambda work: computed.extend(item.count for item in work))
    worker = start(workers, build_core(runner))
    events = await collect(worker.submit(job(n=3)))
    assert sum(event.finish is FinishReason.STOP for event in events) == 3
    assert computed == [3] + [1] * 6


async def test_an_abort_acts_within_one_step_in_every_state(workers: list[Worker]) -> None:
    gate, observer = Gate(), CountingObserver()
    runner = ScriptedRunner(300, before=gate)
    worker = start(workers, build_core(runner, observer=observer))
    running = worker.submit(job())
    await until(gate)
    queued = worker.submit(job(n=2))
    worker.abort(running)
    worker.abort(queued)
    worker.abort(queued)
    gate.opened.set()
    assert [event.text for event in await collect(worker.submit(job()))]
    assert runner.steps == 1 + GREEDY.max_tokens
    assert [reason for _, reason in observer.ends] == [FinishReason.ABORT] * 3 + [FinishReason.LENGTH]
    assert worker.num_open == 0
    assert running.events.empty()


async def test_a_refusal_reaches_an_idle_client(workers: list[Worker]) -> None:
    worker = start(workers, build_core(ScriptedRunner(300)))
    (event,) = await collect(worker.submit(Job((5,) * 2000, GREEDY)))
    assert event.error is not None
    assert event.error.code == "context_length_exceeded"


async def test_broken_bookkeeping_fails_everyone_and_the_loop_goes_on(workers: list[Worker]) -> None:
    core = build_core(ScriptedRunner(300, script("ok")))
    worker = start(workers, core)
    plan = core.scheduler.plan

    def broken(now_s: float) -> object:
        core.scheduler.plan = plan
        raise ZeroDivisionError

    core.scheduler.plan = broken
    events = await collect(worker.submit(job(n=2)))
    assert [event.error.status for event in events if event.error] == [500, 500]
    assert "".join(event.text for event in await collect(worker.submit(job()))) == "ok"


async def test_a_dead_thread_tells_its_clients_and_refuses_new_ones(workers: list[Worker]) -> None:
    gate = Gate()
    worker = start(workers, build_core(ScriptedRunner(300, before=gate)))
    generation = worker.submit(job())
    await until(gate)
    worker._commands.put(None)
    gate.opened.set()
    events = await collect(generation)
    assert events[-1].error is not None
    assert events[-1].error.status == 503
    with pytest.raises(RequestError, match="stopped"):
        worker.submit(job())


async def test_an_outline_that_fails_is_told_to_who_asked_and_ends_nobodys_answer(workers: list[Worker]) -> None:
    core = build_core(ScriptedRunner(300, script("ok")))
    core.scheduler.kv.outline = lambda *_: 1 // 0
    worker = start(workers, core)
    generation = worker.submit(job())
    with pytest.raises(RequestError, match="cannot be told") as caught:
        await worker.outline(10, 10)
    assert caught.value.status == 500
    assert "".join(event.text for event in await collect(generation)) == "ok"


async def test_who_asks_a_thread_that_dies_is_told(workers: list[Worker]) -> None:
    gate = Gate()
    worker = start(workers, build_core(ScriptedRunner(300, before=gate)))
    generation = worker.submit(job())
    await until(gate)
    worker._commands.put(None)
    asked = [asyncio.create_task(worker.outline(10, 10)), asyncio.create_task(worker.purge(["a"]))]
    await asyncio.sleep(0)
    gate.opened.set()
    await collect(generation)
    told = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), timeout=10)
    assert [one.status for one in told if isinstance(one, RequestError)] == [503, 503]
