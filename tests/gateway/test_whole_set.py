"""Whole sets of real processes with two workers: figures, credentials and purges hold on every worker."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.gateway.http.wire import Line, Reply, ask, chat_request, message, metric, native, said
from tests.gateway.stand import KEY
from tests.gateway.whole_set import WholeSet, say, until, upstream_of, whole_set
from tests.upstream import USAGE, Script, Upstream

pytestmark = pytest.mark.slow
AT_ONCE = 10
SLACK_S = 1.0  # for a machine that has other things to do
PROMPT_TOKENS, COMPLETION_TOKENS = USAGE["prompt_tokens"], USAGE["completion_tokens"]


@pytest.fixture(scope="module")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeSet]:
    home = tmp_path_factory.mktemp("whole") / "home"
    with whole_set(home, LAMINA_CACHE__COALESCING_DEADLINE_MS="1000") as one:
        asyncio.run(one.start())
        yield one
        assert "Traceback" not in one.running.output
        assert one.running.stop() == 0


@pytest.fixture
def it(_shared: WholeSet) -> WholeSet:
    """The set of all tests in this file: whatever one kills is back before the next begins."""
    _shared.running.wait_for(lambda: len(_shared.running.workers()) == 2)
    return _shared


@pytest.fixture
async def upstream(it: WholeSet) -> AsyncIterator[Upstream]:
    """Its model provider."""
    async with upstream_of(it) as one:
        yield one


async def load(it: WholeSet, prompts: list[str]) -> list[Reply]:
    """Each prompt on a connection of its own, every other one streamed, several at once."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, text: str) -> Reply:
        async with gate:
            return await ask(it, said(text, stream=number % 2 == 0))

    return await asyncio.gather(*(one(number, text) for number, text in enumerate(prompts)))


def counters(page: bytes) -> dict[str, float]:
    """Every series of ours that may only rise."""
    found: dict[str, float] = {}
    for text in page.decode().splitlines():
        series, _, value = text.rpartition(" ")
        name = series.partition("{")[0]
        if name.startswith("lamina_") and name.endswith(("_total", "_count", "_bucket", "_sum")):
            found[series] = float(value)
    return found


def expected(replies: list[Reply]) -> dict[str, float]:
    """What the figures must have risen by, as the clients saw it."""
    words = Counter(reply["x-lamina-cache"] for reply in replies)
    streams = sum(reply["content-type"].startswith("text/event-stream") for reply in replies)
    joined = sum("collapsed" in reply["cache-status"] for reply in replies)
    led = words["MISS"] - joined
    return {
        "lamina_requests_total": len(replies),
        "lamina_requests_total status=200 stream=true": streams,
        "lamina_request_seconds_count": len(replies),
        "lamina_request_seconds_count source=exact": words["HIT"],
        "lamina_ttft_seconds_count": streams,
        "lamina_auth_total result=ok": len(replies),
        "lamina_cache_lookups_total layer=exact result=hit": words["HIT"],
        "lamina_cache_lookups_total layer=exact result=miss reason=absent": words["MISS"],
        "lamina_cache_lookup_seconds_count layer=exact": len(replies),
        "lamina_cache_writes_total layer=exact result=stored": led,
        "lamina_flights_total role=lead": led,
        "lamina_flights_total role=join": joined,
        "lamina_upstream_calls_total provider=up result=ok": led,
        "lamina_upstream_seconds_count provider=up": led,
        "lamina_tokens_saved_total layer=exact kind=prompt": words["HIT"] * PROMPT_TOKENS,
        "lamina_tokens_saved_total layer=exact kind=completion": words["HIT"] * COMPLETION_TOKENS,
        "lamina_tokens_total source=model kind=completion": led * COMPLETION_TOKENS,
        **{f"lamina_faults_total part={part}": 0 for part in ("gateway", "exact", "forward", "provider")},
    }


def risen(before: bytes, after: bytes, names: list[str]) -> dict[str, float]:
    """By how much the figures of these names rose."""
    rise = {}
    for text in names:
        name, *labels = text.split(" ")
        wanted = dict(label.split("=") for label in labels)
        rise[text] = metric(after, name, **wanted) - metric(before, name, **wanted)
    return rise


async def figures_of(one: Line) -> bytes:
    """The page that the worker behind this connection gives."""
    await one.send(message("GET", "/metrics", [("host", "lamina")], b""))
    return (await one.reply()).body


async def test_figures_add_up_whichever_worker_answers(it: WholeSet, upstream: Upstream) -> None:
    prompts = [f"figures {number}" for number in range(40)]
    before = await it.page()
    replies = [*await load(it, prompts), *await load(it, prompts * 2)]
    after = await it.page()
    want = expected(replies)
    assert risen(before, after, list(want)) == want
    assert upstream.count == want["lamina_flights_total role=lead"]
    assert want["lamina_cache_lookups_total layer=exact result=hit"] >= 2 * len(prompts) - 2
    assert len({await it.worker_of(reply) for reply in replies}) == 2, "one worker answered all"
    async with it.lines() as lines:
        give_up_at = time.monotonic() + 10
        one, other = {"": 0.0}, {"": 1.0}
        while one != other and time.monotonic() < give_up_at:  # some is written behind the answers
            await it.page()
            one, other = [counters(await figures_of(each)) for each in lines.values()]
        assert one == other


async def test_no_figure_falls_when_a_worker_is_killed_in_mid_stream(it: WholeSet, upstream: Upstream) -> None:
    async with it.lines() as lines:
        victim, hanging = next(iter(lines.items()))
        upstream.enqueue(Script(hang_after=2))
        await hanging.send(chat_request(said("cut off by a kill", stream=True)))
        assert (await hanging.head()).status == 200
        before = await it.page()
        assert metric(before, "lamina_flights_in_progress") == 1
        os.kill(victim, signal.SIGKILL)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError, ValueError)):
            [part async for part in hanging.parts()]
    replies = await load(it, [f"after the kill {number}" for number in range(20)] * 2)
    await until(lambda: len(it.running.workers()) == 2)
    after = await it.page()
    want = expected(replies)
    assert risen(before, after, list(want)) == want
    old, new = counters(before), counters(after)
    assert [series for series, figure in old.items() if new.get(series, 0.0) < figure] == []
    assert metric(after, "lamina_flights_in_progress") == 0
    async with it.lines() as lines:
        assert victim not in lines


async def test_a_revoked_key_is_refused_and_a_new_one_let_in_by_every_worker(it: WholeSet) -> None:
    await it.done("tenants", "create", "ann")
    first, second = [await it.done("keys", "create", "--tenant", "ann") for _ in range(2)]
    async with upstream_of(it), it.lines() as lines:
        for each in lines.values():
            assert (await say(each, "whose?", key=first["key"])).status == 200
            assert (await say(each, "whose?", key=first["key"]))["x-lamina-cache"] == "HIT"
            assert (await say(each, "whose?", key=second["key"]))["x-lamina-cache"] == "HIT"
        assert (await it.done("keys", "revoke", first["id"]))["announced"]
        for each in lines.values():
            native(await say(each, "whose?", key=first["key"]), 401, code="invalid_api_key")
            assert (await say(each, "whose?", key=second["key"]))["x-lamina-cache"] == "HIT"
        third = await it.done("keys", "create", "--tenant", "ann")
        for each in lines.values():
            assert (await say(each, "whose?", key=third["key"]))["x-lamina-cache"] == "HIT"
        await it.done("tenants", "revoke", "ann")
        for each in lines.values():
            for made in (first, second, third):
                native(await say(each, "whose?", key=made["key"]), 401)
            assert (await say(each, "whose?")).status == 200, "another tenant was shut out"
    shown = it.running.output
    assert not any(text in shown for text in (first["key"], third["key"], KEY, "whose?")), "a log tells secrets"


async def test_a_purge_holds_for_the_next_request_on_every_worker(it: WholeSet, upstream: Upstream) -> None:
    upstream.default = Script(pieces=("before",))
    async with it.lines() as lines:
        prompts = [f"purged {worker}" for worker in lines]
        for each in lines.values():
            assert [(await say(each, text)).text for text in prompts] == ["before"] * 2
            assert [(await say(each, text))["x-lamina-cache"] for text in prompts] == ["HIT"] * 2
        upstream.default = Script(pieces=("after",))
        await it.done("purge", "--tenant", "default", "--all")
        for text, each in zip(prompts, lines.values(), strict=True):
            reply = await say(each, text)
            assert (reply["x-lamina-cache"], reply.text) == ("MISS", "after")
        for each in lines.values():
            replies = [await say(each, text) for text in prompts]
            assert [(reply["x-lamina-cache"], reply.text) for reply in replies] == [("HIT", "after")] * 2


async def fill(lines: dict[int, Line], upstream: Upstream, prompts: list[str]) -> None:
    """Makes entries that say `before`, one group each; what the model says from then on is `after`."""
    upstream.default = Script(pieces=("before",))
    for each in lines.values():
        for text in prompts:
            await say(each, text, ("x-lamina-cache-groups", text))
            assert (await say(each, text))["x-lamina-cache"] == "HIT"
    upstream.default = Script(pieces=("after",))


async def hits_again(lines: dict[int, Line], within_s: float) -> None:
    """Returns once every worker serves from the cache."""

    async def hit() -> bool:
        replies = [await say(each, "is the cache there?") for each in lines.values()]
        assert {reply.status for reply in replies} == {200}
        return {reply["x-lamina-cache"] for reply in replies} == {"HIT"}

    await until(hit, within_s)


async def test_a_killed_redis_costs_no_request_and_a_purge_meanwhile_holds(
    it: WholeSet, upstream: Upstream
) -> None:
    async with it.lines() as lines:
        purged = [f"purged-while-redis-is-dead-{worker}" for worker in lines]
        await fill(lines, upstream, ["kept", *purged])
        assert it.redis("SAVE") == b"+OK\r\n"
        with it.stopped(it.running.pid):  # a supervisor that starts nothing
            it.kill("redis")
            for each in lines.values():
                reply = await say(each, "kept")
                assert (reply.status, reply["x-lamina-cache"], reply.text) == (200, "MISS", "after")
            for text in purged:
                told = await it.lamina("purge", "--tenant", "default", "--tag", text)
                assert told.status == 0, "the next Redis is compared with the database before it is believed"
        await hits_again(lines, within_s=5)
        kept = {(await say(each, "kept")).text for each in lines.values()}
        assert kept == {"before"}, "the snapshot is not back"
        for text, each in zip(purged, lines.values(), strict=True):
            reply = await say(each, text)
            assert (reply["x-lamina-cache"], reply.text) == ("MISS", "after")
    assert await it.figure("lamina_faults_total", part="redis") > 0


async def test_a_frozen_redis_costs_its_deadline_and_a_purge_meanwhile_holds(
    it: WholeSet, upstream: Upstream
) -> None:
    async with it.lines() as lines:
        purged = [f"purged while redis is frozen {worker}" for worker in lines]
        await fill(lines, upstream, purged)
        usual_s = max([await _seconds(each, "usual") for each in lines.values()])
        with it.stopped(it.running.children()["redis"]):
            for each in lines.values():
                took_s = [await _seconds(each, f"frozen {number}") for number in range(8)]
                assert max(took_s) < usual_s + 0.1 + SLACK_S
                assert sum(took > usual_s + 0.05 for took in took_s) <= 4, "the breaker stays closed"
            told = await it.lamina("purge", "--tenant", "default", "--all")
            assert (told.status, told.data["announced"]) == (1, False)
            assert "Redis did not confirm it" in told.error
        for text, each in zip(purged, lines.values(), strict=True):
            reply = await say(each, text)
            assert (reply.status, reply.text) == (200, "after")
        await hits_again(lines, within_s=5)
        for each in lines.values():
            assert [(await say(each, text)).text for text in purged] == ["after"] * 2


async def _seconds(one: Line, text: str) -> float:
    begun = time.perf_counter()
    assert (await say(one, text)).status == 200
    return time.perf_counter() - begun
