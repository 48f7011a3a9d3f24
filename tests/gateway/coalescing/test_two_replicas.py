"""One model call for two replicas: whole and streamed, and whatever becomes of the one that makes it."""

import asyncio
import time

import pytest

from tests.gateway.coalescing.conftest import LEASE_MS, Pair
from tests.gateway.http.wire import Reply, ask, chat_request, line, measured, said
from tests.gateway.stand import KEY, Stand
from tests.upstream import Script

PIECES = tuple(f"{number} " for number in range(30))
TEXT = "".join(PIECES)
SLOW = Script(pieces=PIECES, delay_s=0.8, piece_delay_s=0.02)


def text_of(reply: Reply) -> str:
    """What an answer says, whole or streamed."""
    assert reply.status == 200, reply.body
    if not reply["content-type"].startswith("text/event-stream"):
        return reply.text
    *events, last = reply.events
    assert last == "[DONE]", last
    return "".join(event["choices"][0]["delta"].get("content") or "" for event in events if event["choices"])


async def led(pair: Pair, calls: int = 1) -> None:
    """Returns when the model was asked so often."""
    await pair.upstream.until(calls=calls, within_s=5)


async def many(it: Stand, count: int, text: str = "q") -> list[Reply]:
    return await asyncio.gather(*(ask(it, said(text, stream=number % 2 == 0)) for number in range(count)))


async def on_both(pair: Pair, count: int) -> list[Reply]:
    one, two = await asyncio.gather(many(pair.one, count), many(pair.two, count))
    return [*one, *two]


@pytest.mark.parametrize("leader_streams", [False, True], ids=["whole", "stream"])
async def test_many_misses_on_both_make_one_call(pair: Pair, *, leader_streams: bool) -> None:
    pair.upstream.enqueue(SLOW)
    leader = asyncio.create_task(ask(pair.one, said("q", stream=leader_streams)))
    await led(pair)
    replies = [*await on_both(pair, 6), await leader]
    assert {text_of(reply) for reply in replies} == {TEXT}
    assert pair.upstream.count == 1
    assert sum("collapsed" not in reply["cache-status"] for reply in replies) == 1
    assert len({reply.json["id"] for reply in replies if reply["content-type"] == "application/json"}) >= 6
    assert await pair.counted("lamina_flights_total", role="follow") == 1
    assert (await ask(pair.two, said("q")))["x-lamina-cache"] == "HIT"


async def test_a_follower_elsewhere_has_the_stream_from_its_first_byte_and_then_live(pair: Pair) -> None:
    pair.upstream.enqueue(Script(pieces=PIECES, piece_delay_s=0.05))
    async with line(pair.one) as leader, line(pair.two) as follower:
        await leader.send(chat_request(said("q", stream=True)))
        await leader.head()
        await asyncio.sleep(0.3)
        await follower.send(chat_request(said("q", stream=True)))
        head = await follower.head()
        began = time.monotonic()
        parts = [(part, time.monotonic() - began) async for part in follower.parts()]
    assert "collapsed" in head["cache-status"]
    body = b"".join(part for part, _ in parts)
    assert text_of(Reply(200, head.pairs, body)) == TEXT
    assert len(parts) > 5
    assert parts[-1][1] - parts[0][1] > 0.3
    assert pair.upstream.count == 1


async def test_tenants_never_share_a_call(pair: Pair) -> None:
    pair.upstream.default = Script(delay_s=0.8)
    key = await pair.one.tenant("other")
    for it in (pair.one, pair.two):
        assert (await ask(it, said("first"), key=key)).status == 200
    pair.upstream.count = 0
    replies = await asyncio.gather(
        *(ask(it, said("q"), key=whose) for it in (pair.one, pair.two) for whose in (KEY, key))
    )
    assert [reply.status for reply in replies] == [200] * 4
    assert pair.upstream.count == 2


async def test_a_follower_from_after_a_purge_takes_no_answer_from_before_it(pair: Pair) -> None:
    pair.upstream.enqueue(Script(pieces=("before",), delay_s=0.8), Script(pieces=("after",)))
    before = asyncio.create_task(ask(pair.one, said("q")))
    await led(pair)
    await pair.one.purge()
    after = await ask(pair.two, said("q"))
    assert (after.text, (await before).text) == ("after", "before")
    assert (await ask(pair.two, said("q"))).text != "before"
    assert (await ask(pair.one, said("q"))).text != "before"


async def test_the_call_goes_on_for_a_follower_when_the_leaders_client_leaves(pair: Pair) -> None:
    pair.upstream.enqueue(SLOW)
    async with line(pair.one) as leader:
        await leader.send(chat_request(said("q", stream=True)))
        await led(pair)
        follower = asyncio.create_task(ask(pair.two, said("q", stream=True)))
        await asyncio.sleep(0.2)
    assert text_of(await follower) == TEXT
    assert (pair.upstream.count, pair.upstream.disconnects) == (1, 0)


async def test_the_call_ends_when_the_last_follower_elsewhere_leaves(pair: Pair) -> None:
    pair.upstream.enqueue(Script(hang_after=2))
    async with line(pair.one) as leader, line(pair.two) as follower:
        await leader.send(chat_request(said("q", stream=True)))
        await leader.head()
        await follower.send(chat_request(said("q", stream=True)))
        await follower.head()
        await leader.close()
        await asyncio.sleep(0.2)
        assert pair.upstream.disconnects == 0
    await pair.upstream.until(disconnects=1, within_s=2)


async def test_a_leader_whose_client_leaves_first_hands_over_at_once(pair: Pair) -> None:
    pair.upstream.enqueue(Script(hang_after=0), Script(pieces=("second",)))
    async with line(pair.one) as leader:
        await leader.send(chat_request(said("q")))
        await led(pair)
    await pair.upstream.until(disconnects=1, within_s=2)
    began = time.monotonic()
    assert (await ask(pair.two, said("q"))).text == "second"
    assert time.monotonic() - began < LEASE_MS / 1000


async def test_a_failed_call_is_made_again_for_those_who_wait(pair: Pair) -> None:
    failing = Script(status=503, body={"error": {"message": "no"}}, delay_s=0.4)
    pair.upstream.enqueue(failing, Script(pieces=("second",), delay_s=0.2))
    leader = asyncio.create_task(ask(pair.one, said("q")))
    await led(pair)
    others = await on_both(pair, 3)
    assert (await leader).status == 503
    assert {text_of(reply) for reply in others} == {"second"}
    assert pair.upstream.count == 2


async def test_a_model_that_keeps_failing_is_asked_twice_and_all_are_told(pair: Pair) -> None:
    pair.upstream.default = Script(status=503, body={"error": {"message": "no"}}, delay_s=0.4)
    replies = await on_both(pair, 4)
    assert {reply.status for reply in replies} == {503}
    assert pair.upstream.count == 2


@pytest.mark.parametrize("status", [400, 429])
async def test_the_requests_own_fault_is_told_to_all_at_once(pair: Pair, status: int) -> None:
    pair.upstream.default = Script(status=status, body={"error": {"message": "no"}}, delay_s=0.4)
    replies = await on_both(pair, 3)
    assert {reply.status for reply in replies} == {status}
    assert {reply.json["error"]["message"] for reply in replies} == {"no"}
    assert pair.upstream.count == 1


async def test_after_an_answer_that_may_not_be_stored_each_asks_alone_and_at_once(pair: Pair) -> None:
    pair.upstream.default = Script(finish_reason="length", delay_s=0.8)
    began = time.monotonic()
    bodies = [said("q") for _ in range(4)]
    replies = await asyncio.gather(*(ask(it, body) for it in (pair.one, pair.two) for body in bodies))
    took_s = time.monotonic() - began
    assert {reply["x-lamina-cache-reason"] for reply in replies} == {"length"}
    assert all("collapsed" not in reply["cache-status"] for reply in replies)
    assert pair.upstream.count == 8
    assert took_s < 8 * 0.8 / 2
    assert await pair.counted("lamina_flights_total", role="alone") == 7


async def test_streams_that_have_begun_keep_an_answer_that_may_not_be_stored(pair: Pair) -> None:
    pair.upstream.default = Script(pieces=PIECES, finish_reason="length", piece_delay_s=0.02)
    leader = asyncio.create_task(ask(pair.one, said("q", stream=True)))
    await led(pair)
    await asyncio.sleep(0.2)
    replies = [await ask(pair.two, said("q", stream=True)), await leader]
    assert {text_of(reply) for reply in replies} == {TEXT}
    assert pair.upstream.count == 1


async def test_redis_that_forgets_the_lease_costs_a_call_and_no_request(pair: Pair) -> None:
    pair.upstream.enqueue(Script(pieces=PIECES, delay_s=2.0))
    pair.upstream.default = Script(pieces=PIECES)
    leader = asyncio.create_task(ask(pair.one, said("q", stream=True)))
    await led(pair)
    follower = asyncio.create_task(ask(pair.two, said("q")))
    await asyncio.sleep(0.1)
    pair.redis.flush()
    assert {text_of(await leader), text_of(await follower)} == {TEXT}
    assert pair.upstream.count == 2
    async with asyncio.timeout(5):  # Redis may answer the write after the client has its answer
        while not await measured(pair.one, "lamina_cache_writes_total", reason="lease_lost"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_lone_miss_leaves_nothing_but_its_entry(pair: Pair) -> None:
    await ask(pair.one, said("q"))
    keys = pair.redis.command("KEYS", "*")
    assert b":f:" not in keys
    assert b":e:" in keys
    assert await pair.counted("lamina_faults_total", part="coalescing") == 0
