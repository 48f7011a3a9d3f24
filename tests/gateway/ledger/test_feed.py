"""The feed shows the latest requests of all workers, and no text; nobody waits for it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.ledger import Answered, Feed, Ledger
from gateway.ledger.feed import FEED_KEY, MOST_LINES
from gateway.redis_link import RedisLink, RedisTarget
from gateway.telemetry.metrics import Metrics
from policies.ledger import PriceRow, PriceTable
from tests.gateway.http.wire import metric
from tests.servers.redis import RedisServer

PRICES = PriceTable([PriceRow(("a",), "3", "15", "0.3", "3.75", "6")])
USAGE = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 64}}


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


def answered(number: int, source: str = "exact", **changes: Any) -> Answered:
    fields: dict[str, Any] = {
        "request_id": f"req_{number}",
        "tenant_id": "t1",
        "surface": "chat",
        "route": "m",
        "provider": "up",
        "model": "a",
        "source": source,
        "cache": "HIT",
        "reason": "exact",
        "status": 200,
        "stream": False,
        "usage": USAGE,
        "latency_s": 0.0012345,
        "ttft_s": None,
        "took_s": 0.5,
    }
    return Answered(**fields | changes)


def worker(link: RedisLink, metrics: Metrics) -> tuple[Ledger, Feed]:
    feed = Feed(link, metrics)
    clock = iter(range(1_000_000))
    return Ledger(PRICES, frozenset(), metrics, feed.add, lambda: float(next(clock))), feed


def everything(_line: dict[str, Any]) -> bool:
    return True


async def test_lines_of_all_workers_newest_first(link: RedisLink) -> None:
    metrics = Metrics()
    one, one_feed = worker(link, metrics)
    other, other_feed = worker(link, metrics)
    one.answered(answered(1, "model"))
    other.answered(answered(2, tenant_id="t2", model="nobody-knows"))
    other.answered(answered(3, "none", status=429, usage=None, reason="rate_limited"))
    assert await one_feed.latest(everything, 10) == []
    await one_feed.write()
    await other_feed.write()
    await other_feed.write()
    lines = {line["request_id"]: line for line in await one_feed.latest(everything, 10)}
    assert next(iter(lines)) == "req_3"
    assert lines.keys() == {"req_1", "req_2", "req_3"}
    assert lines["req_1"] == {
        "at": 0.0,
        "request_id": "req_1",
        "tenant_id": "t1",
        "surface": "chat",
        "route": "m",
        "provider": "up",
        "model": "a",
        "layer": "model",
        "cache": "HIT",
        "reason": "exact",
        "status": 200,
        "stream": False,
        "prompt_tokens": 100,
        "cached_tokens": 64,
        "completion_tokens": 7,
        "ms": 1.234,
        "ttft_ms": None,
        "cost_usd": "0.0002322",
        "saved_usd": "0.0001728",
    }
    assert lines["req_2"]["cost_usd"] is None
    assert (lines["req_3"]["layer"], lines["req_3"]["status"]) == ("none", 429)
    only = await other_feed.latest(lambda line: line["tenant_id"] == "t2", 10)
    assert [line["request_id"] for line in only] == ["req_2"]
    assert metric(metrics.exposition(), "lamina_feed_lines_total", result="written") == 3


async def test_old_lines_go_and_too_many_are_skipped_and_counted(link: RedisLink) -> None:
    metrics = Metrics()
    ledger, feed = worker(link, metrics)
    for batch in range(6):
        for number in range(300):
            ledger.answered(answered(batch * 300 + number))
        await feed.write()
    assert len(await feed.latest(everything, 5_000)) == MOST_LINES
    assert [line["request_id"] for line in await feed.latest(everything, 2)] == ["req_1799", "req_1798"]
    page = metrics.exposition()
    assert metric(page, "lamina_feed_lines_total", result="written") == 1_500
    assert metric(page, "lamina_feed_lines_total", result="skipped") == 300


async def test_what_somebody_else_wrote_is_passed_over(link: RedisLink) -> None:
    ledger, feed = worker(link, Metrics())
    await link.call("RPUSH", FEED_KEY, b"\xff", b"[]", b"{}", b'{"at":"x"}')
    ledger.answered(answered(1))
    await feed.write()
    assert [line["request_id"] for line in await feed.latest(everything, 10)] == ["req_1"]


@pytest.mark.slow
async def test_without_redis_lines_are_lost_and_counted() -> None:
    metrics = Metrics()
    link = RedisLink(
        RedisTarget.parse("redis://127.0.0.1:1"),
        deadline_s=0.1,
        failures=3,
        retry_s=5,
        on_fault=lambda _reason: None,
    )
    ledger, feed = worker(link, metrics)
    ledger.answered(answered(1))
    await feed.write()
    assert metric(metrics.exposition(), "lamina_feed_lines_total", result="lost") == 1
    await link.close()
