"""No two sequences of a process have the same id, whatever was refused between them."""

import asyncio
import time

import pytest

from engine.errors import RequestError
from engine.sampling import SamplingParams
from engine.worker import Job, QueueLimits, Worker
from tests.engine.fakes import Gate, ScriptedRunner, build_core


async def test_ids_are_never_given_twice() -> None:
    """As in transformers PR#45943."""
    gate = Gate()
    worker = Worker(build_core(ScriptedRunner(300, before=gate)), QueueLimits(6, 6), time.monotonic)
    worker.start(asyncio.get_running_loop())
    job = Job((5, 6, 7), SamplingParams(max_tokens=2, temperature=0), 2)
    seen: list[int] = []
    try:
        opened = [worker.submit(job) for _ in range(3)]
        seen += [seq_id for one in opened for seq_id in one.seq_ids]
        with pytest.raises(RequestError):
            worker.submit(job)
        gate.opened.set()
        while opened:
            await asyncio.wait_for(opened[0].events.get(), 10)
            opened = [one for one in opened if one.open_ids]
        seen += worker.submit(job, job).seq_ids
    finally:
        gate.opened.set()
        await asyncio.to_thread(worker.stop, 5.0)
    assert len(seen) == len(set(seen)) == 10
