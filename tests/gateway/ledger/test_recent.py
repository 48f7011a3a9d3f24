"""Figures of the last hour and day: over workers, counted once, whatever Redis does meanwhile."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest_asyncio

from gateway.errors import StoreUnavailable
from gateway.ledger.lines import Answered, FeedLine
from gateway.ledger.recent import MINUTE_S, QUARTER_S, Recent
from gateway.redis_link import RedisLink, RedisTarget
from policies.ledger import Price, worth_of
from policies.ledger.usage import split
from policies.series import Tally
from tests.servers.redis import RedisServer

NOW_S = 1_800_000_000.0
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 40}}


def line(at_s: float = NOW_S, tenant: str = "T1", layer: str = "exact", status: int = 200) -> FeedLine:
    answered = Answered(
        "req_1", tenant, "chat", "m", "up", "m", layer, "HIT", "exact", status, False, USAGE, 0.002, None, 0.0
    )
    return FeedLine(at_s, answered, layer, worth_of(split(USAGE, engine=False), None), None)


@pytest_asyncio.fixture
async def link(redis_server: RedisServer) -> AsyncIterator[RedisLink]:
    made = RedisLink(
        RedisTarget.parse(redis_server.url), deadline_s=1.0, failures=100, retry_s=0.05, on_fault=lambda _: None
    )
    yield made
    await made.close()


async def test_workers_add_up_and_a_write_sent_twice_counts_once(link: RedisLink) -> None:
    one, other = Recent(link, lambda: NOW_S), Recent(link, lambda: NOW_S)
    one.add(line())
    await one.write()
    one.add(line(layer="model"))
    other.add(line(tenant="T2", status=500))
    await asyncio.gather(one.write(), other.write())
    await one.write()
    for step_s in (MINUTE_S, QUARTER_S):
        found = await one.read(step_s, lambda _: True)
        at, by_layer = found[-1]
        assert at == NOW_S // step_s * step_s
        assert {name: tally.requests for name, tally in by_layer.items()} == {"exact": 2, "model": 1}
        assert by_layer["exact"].errors == 1
        assert (by_layer["exact"].saved_tokens, by_layer["model"].saved_tokens) == (240, 40)
        assert all(not tallies for _, tallies in found[:-1])


async def test_only_wanted_tenants_count(link: RedisLink) -> None:
    recent = Recent(link, lambda: NOW_S)
    recent.add(line())
    recent.add(line(tenant="T2"))
    await recent.write()
    found = await recent.read(MINUTE_S, lambda tenant: tenant == "T2")
    assert found[-1][1]["exact"].requests == 1


async def test_what_was_counted_while_redis_was_away_is_written_later(
    link: RedisLink, redis_server: RedisServer
) -> None:
    recent = Recent(link, lambda: NOW_S)
    recent.add(line())
    redis_server.stop()
    await recent.write()
    redis_server.cont()
    recent.add(line())
    found = 0
    for _ in range(100):
        with contextlib.suppress(StoreUnavailable):
            await recent.write()
            found = (await recent.read(MINUTE_S, lambda _: True))[-1][1].get("exact", Tally()).requests
        if found:
            break
        await asyncio.sleep(0.05)
    assert found == 2


async def test_a_strangers_bytes_are_passed_over_and_memory_is_bounded(link: RedisLink) -> None:
    recent = Recent(link, lambda: NOW_S)
    await link.call("HSET", f"lamina:recent:60:{int(NOW_S // 60)}", "other", b"\xffnothing of ours")
    for number in range(1_500):
        recent.add(line(tenant=f"T{number}"))
    await recent.write()
    found = await recent.read(MINUTE_S, lambda _: True)
    assert found[-1][1]["exact"].requests == 1_500
    assert len(recent._minutes[int(NOW_S // 60)]) == 1_001


async def test_money_is_what_the_feed_says(link: RedisLink) -> None:
    price = Price(2_000_000, 8_000_000, 500_000, 2_000_000, 2_000_000)
    answered = line(layer="model").answered
    recent = Recent(link, lambda: NOW_S)
    recent.add(FeedLine(NOW_S, answered, "model", worth_of(split(USAGE, engine=False), price), price))
    await recent.write()
    found = (await recent.read(MINUTE_S, lambda _: True))[-1][1]["model"]
    assert found.cost_pico == 60 * 2_000_000 + 40 * 500_000 + 20 * 8_000_000
    assert found.saved_pico == 40 * 1_500_000
