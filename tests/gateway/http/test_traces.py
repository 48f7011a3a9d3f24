"""Traces over a real collector: one server span per request, a span per layer below it, no text."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.settings import TraceSettings
from tests.gateway.http.wire import Reply, ask, measured, said
from tests.gateway.semantic_stand import PARAPHRASE, QUESTION, meaning
from tests.gateway.stand import KEY, Stand, stand
from tests.servers.collector import Collector, Received
from tests.servers.redis import RedisServer
from tests.upstream import Script

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
pytestmark = pytest.mark.slow
CANARY = "the canary sings at dawn"


@contextlib.asynccontextmanager
async def traced(home: Path, redis: RedisServer, collector: Collector, **traces: Any) -> AsyncIterator[Stand]:
    settings = TraceSettings(endpoint=collector.endpoint, **traces)
    async with stand(home, redis, traces=settings) as it:
        yield it


async def spans(collector: Collector, count: int, within_s: float = 20.0) -> list[Received]:
    """The spans, once so many have come."""
    async with asyncio.timeout(within_s):
        while len(collector.spans) < count:  # noqa: ASYNC110  (another thread sets no event of ours)
            await asyncio.sleep(0.02)
    return sorted(collector.spans, key=lambda span: span.start_ns)


async def counted(it: Stand, result: str, least: int) -> None:
    async with asyncio.timeout(15):
        while await measured(it, "lamina_spans_total", result=result) < least:  # noqa: ASYNC110  (a page has no event)
            await asyncio.sleep(0.1)


def by_name(found: list[Received]) -> dict[str, Received]:
    named = {span.name: span for span in found}
    assert len(named) == len(found), [span.name for span in found]
    return named


def parent(name: str = TRACE, flags: str = "01") -> tuple[str, str]:
    return "traceparent", f"00-{name}-{SPAN}-{flags}"


async def test_a_miss_has_a_span_per_layer_below_its_own(tmp_path: Path, redis_server: RedisServer) -> None:
    with Collector() as collector:
        async with traced(tmp_path, redis_server, collector) as it:
            reply = await ask(it, said("how are you", max_tokens=5), parent(), ("tracestate", "v=1"))
            named = by_name(await spans(collector, 7))
            call = it.upstream.calls[0]
    server, flight, model = named["POST /v1/chat/completions"], named["flight"], named["chat m"]
    below_server = {"auth", "exact lookup", "flight"}
    assert {name for name, span in named.items() if span.parent_id == server.span_id} == below_server
    assert {name for name, span in named.items() if span.parent_id == flight.span_id} == {
        *("guards", "chat m", "exact write"),
    }
    assert (server.trace_id, server.parent_id, server.state, server.kind) == (TRACE, SPAN, "v=1", "server")
    assert {span.trace_id for span in named.values()} == {TRACE}
    assert call.headers["traceparent"] == f"00-{TRACE}-{model.span_id}-01"
    assert call.headers["tracestate"] == "v=1"
    _told_by_the_conventions(server, model, reply)
    assert all(server.start_ns <= span.start_ns <= span.end_ns for span in named.values())
    assert named["exact lookup"].attributes == {
        "lamina.layer": "exact",
        "lamina.result": "miss",
        "lamina.reason": "absent",
    }
    assert collector.resources[0]["service.name"] == "lamina"


def _told_by_the_conventions(server: Received, model: Received, reply: Reply) -> None:
    expected = {
        "http.request.method": "POST",
        "http.route": "/v1/chat/completions",
        "http.response.status_code": 200,
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 4,
        "lamina.request_id": reply["x-request-id"],
        "lamina.source": "model",
    }
    assert expected.items() <= server.attributes.items()
    assert not server.failed
    asked = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "up",
        "gen_ai.request.model": "m",
        "gen_ai.request.max_tokens": 5,
        "gen_ai.request.stream": False,
        "gen_ai.response.model": "m",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 4,
    }
    assert asked.items() <= model.attributes.items()
    assert model.kind == "client"


async def test_a_hit_has_no_flight(tmp_path: Path, redis_server: RedisServer) -> None:
    with Collector() as collector:
        async with traced(tmp_path, redis_server, collector) as it:
            await ask(it, said("again"))
            await spans(collector, 7)
            collector.spans.clear()
            assert (await ask(it, said("again")))["x-lamina-cache"] == "HIT"
            found = by_name(await spans(collector, 3))
    assert found.keys() == {"POST /v1/chat/completions", "auth", "exact lookup"}
    assert found["POST /v1/chat/completions"].attributes["lamina.source"] == "exact"
    assert found["exact lookup"].attributes["lamina.result"] == "hit"
    assert len({span.trace_id for span in found.values()}) == 1


async def test_a_stream_ends_its_call_with_usage_and_first_chunk(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    with Collector() as collector:
        async with traced(tmp_path, redis_server, collector) as it:
            await ask(it, said("stream", stream=True))
            model = by_name(await spans(collector, 7))["chat m"]
    assert model.attributes["gen_ai.usage.output_tokens"] == 4
    assert 0 < model.attributes["gen_ai.response.time_to_first_chunk"] < 5
    assert not model.failed


async def test_a_failure_is_named_where_it_happened(tmp_path: Path, redis_server: RedisServer) -> None:
    with Collector() as collector:
        async with traced(tmp_path, redis_server, collector) as it:
            it.upstream.enqueue(Script(status=500, body={"error": {"message": CANARY}}))
            assert (await ask(it, said("fail"))).status == 500
            named = by_name(await spans(collector, 5))
    assert named["chat m"].attributes["error.type"] == "status"
    assert named["POST /v1/chat/completions"].attributes["error.type"] == "500"
    assert named["chat m"].failed
    assert named["POST /v1/chat/completions"].failed
    assert not named["auth"].failed


async def test_strangers_are_seen_too(tmp_path: Path, redis_server: RedisServer) -> None:
    with Collector() as collector:
        async with traced(tmp_path, redis_server, collector) as it:
            assert (await ask(it, said("who"), key="lam_nobody_at_all_0000")).status == 401
            named = by_name(await spans(collector, 2))
    assert named["auth"].attributes["lamina.result"] == "unknown"
    assert named["POST /v1/chat/completions"].attributes["http.response.status_code"] == 401


async def test_who_is_not_recorded_leaves_nothing_but_is_handed_on(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    with Collector() as collector:
        async with traced(tmp_path, redis_server, collector, share=0.0) as it:
            await ask(it, said("one"), parent(flags="00"))
            await ask(it, said("two"))
            handed = [call.headers["traceparent"].split("-") for call in it.upstream.calls]
            await ask(it, said("three"), parent())
            found = await spans(collector, 7)
    assert {span.trace_id for span in found} == {TRACE}
    assert handed[0][1] == TRACE
    assert handed[1][1] != TRACE
    assert [parts[3] for parts in handed] == ["00", "00"]


async def test_no_text_and_no_secret_leaves(tmp_path: Path, redis_server: RedisServer) -> None:
    with Collector() as collector:
        async with traced(tmp_path, redis_server, collector, headers={"x-token": "let-me-in"}) as it:
            it.upstream.default = Script(pieces=[f"an answer where {CANARY}"])
            body = said(f"tell me how {CANARY}", user=CANARY, stop=[CANARY], metadata={"note": CANARY})
            await ask(it, body, ("x-lamina-tags", "canary-tag"))
            await ask(it, said(f"card 4929 1234 5678 9012 and {CANARY}"))
            await ask(it, {"model": "m", "messages": CANARY})
            await spans(collector, 15)
            assert collector.headers[0]["x-token"] == "let-me-in"
    raw = b"".join(collector.raw)
    assert raw
    for secret in (CANARY, "canary", "4929", KEY, "let-me-in", "s" * 40):
        assert secret.encode() not in raw


async def test_meaning_and_budget_have_spans(tmp_path: Path, redis_server: RedisServer) -> None:
    with Collector() as collector:
        traces = TraceSettings(endpoint=collector.endpoint)
        budget = {"rule": "learned", "min_probability": 0.5}
        async with meaning(tmp_path, redis_server, traces=traces, semantic=budget) as it:
            await it.taught(QUESTION)
            await spans(collector, 7)
            collector.spans.clear()
            await it.ask(PARAPHRASE)
            found = await spans(collector, 5)
    names = [span.name for span in found]
    assert {"auth", "exact lookup", "semantic lookup", "budget"} <= set(names)
    assert "POST /v1/chat/completions" in names
    looked_up = next(span for span in found if span.name == "semantic lookup")
    assert looked_up.end_ns > looked_up.start_ns


async def test_a_collector_that_is_away_costs_no_request(tmp_path: Path, redis_server: RedisServer) -> None:
    with Collector() as away:
        pass
    async with traced(tmp_path, redis_server, away, timeout_s=0.5) as it:
        for number in range(5):
            assert (await ask(it, said(f"question {number}"))).status == 200
        await counted(it, "failed", 1)


async def test_a_slow_collector_costs_no_request_and_the_queue_is_bounded(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    with Collector(delay_s=30) as slow:
        async with traced(tmp_path, redis_server, slow, max_waiting=10, timeout_s=20) as it:
            begun = time.monotonic()
            for number in range(10):
                assert (await ask(it, said(f"question {number}"))).status == 200
            assert time.monotonic() - begun < 10
            await counted(it, "dropped", 60)
            begun = time.monotonic()
        assert time.monotonic() - begun < 4, "closing waited for the collector"


@pytest.mark.parametrize("status", [400, 404, 500])
async def test_a_collector_that_refuses_is_counted(tmp_path: Path, redis_server: RedisServer, status: int) -> None:
    with Collector(status=status) as refusing:
        async with traced(tmp_path, redis_server, refusing, timeout_s=0.5) as it:
            assert (await ask(it, said("hello"))).status == 200
            await counted(it, "failed", 1)


async def test_what_waits_is_sent_when_the_gateway_ends(tmp_path: Path, redis_server: RedisServer) -> None:
    with Collector() as collector:
        async with traced(tmp_path, redis_server, collector) as it:
            await ask(it, said("goodbye"))
        assert len(collector.spans) == 7
