"""Workers as processes: one call for a crowd over two replicas, and a leader that is killed in the middle."""

import asyncio
import time

import pytest

from bench.coalescing import ask, crowd, fleet

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

WORDS = 25
LEASE_S = 1.0


def whole(body: bytes) -> bool:
    """Whether every word of the answer is there once, and the end."""
    words = all(body.count(b"word%d " % number) == 1 for number in range(WORDS))
    return words and (b"[DONE]" in body or b'"finish_reason":"stop"' in body)


async def test_a_crowd_over_two_replicas_of_two_workers_makes_one_call_per_tenant() -> None:
    async with fleet(tenants=2, coalescing_lease_ms=5000) as it:  # no lease lapses because the machine is busy
        for number in range(8):  # so that each worker has met each key
            await crowd(it.ports, it.keys, 16, f"warm {number}")
        before = it.upstream.count
        replies = await crowd(it.ports, it.keys, 1000, "all ask this")
        assert {reply.status for reply in replies} == {200}
        assert all(whole(reply.body) for reply in replies)
        assert it.upstream.count - before == 2


async def test_a_leader_that_is_killed_in_the_middle_is_replaced_within_about_a_lease() -> None:
    async with fleet(workers=1) as it:
        await crowd(it.ports, it.keys, 8, "warm")
        before = it.upstream.count
        leader = asyncio.create_task(ask(it.ports[0], it.keys[0], "q", stream=True))
        await it.upstream.until(calls=before + 1, within_s=30)
        followers = [
            asyncio.create_task(ask(it.ports[1], it.keys[0], "q", stream=number % 2 == 0)) for number in range(8)
        ]
        await asyncio.sleep(0.5)
        it.workers[0].kill()
        killed_s = time.monotonic()
        await it.upstream.until(calls=before + 2, within_s=30)
        took_over_s = time.monotonic() - killed_s
        replies = await asyncio.gather(*followers)
        assert {reply.status for reply in replies} == {200}
        assert all(whole(reply.body) for reply in replies)
        assert it.upstream.count - before == 2
        assert took_over_s < LEASE_S + 1.0
        assert not whole((await leader).body)
