"""A client that leaves stops the model within a second, unless somebody else is still waiting for the answer."""

import asyncio
import time

import pytest

from tests.gateway.http.wire import ask, chat_request, line, measured, said
from tests.gateway.stand import Stand
from tests.upstream import Script

pytestmark = pytest.mark.asyncio(loop_scope="module")

PIECES = tuple(f"{number} " for number in range(40))
SLOW = Script(pieces=PIECES, piece_delay_s=0.01)
WITHIN_S = 1.0


async def landed(it: Stand) -> None:
    """Returns when no model call is in progress."""
    async with asyncio.timeout(WITHIN_S):
        while await measured(it, "lamina_flights_in_progress"):  # noqa: ASYNC110  (a page can only be asked again)
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "script", [Script(hang_after=0), Script(hang_after=3), SLOW], ids=["silent", "hung", "slow"]
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_the_model_is_stopped_within_a_second(
    it: Stand, prompt: str, script: Script, *, stream: bool
) -> None:
    if not stream:
        script = Script(hang_after=0)
    it.upstream.enqueue(script)
    left, calls = it.upstream.disconnects, it.upstream.count
    async with line(it) as opened:
        await opened.send(chat_request(said(prompt, stream=stream)))
        await it.upstream.until(calls=calls + 1)
        assert await measured(it, "lamina_flights_in_progress") == 1
        if script.hang_after != 0:
            await opened.head()
    began = time.monotonic()
    await it.upstream.until(disconnects=left + 1, within_s=WITHIN_S)
    assert time.monotonic() - began < WITHIN_S
    await landed(it)
    assert await measured(it, "lamina_requests_total", status="499") >= 1
    assert (await ask(it, said(prompt)))["x-lamina-cache"] == "MISS"


@pytest.mark.parametrize("follower_streams", [False, True], ids=["then whole", "then stream"])
@pytest.mark.parametrize("leader_streams", [False, True], ids=["whole", "stream"])
async def test_a_follower_gets_everything_when_the_leader_leaves(
    it: Stand, prompt: str, *, leader_streams: bool, follower_streams: bool
) -> None:
    it.upstream.enqueue(Script(pieces=PIECES, delay_s=0.15, piece_delay_s=0.005))
    left, calls = it.upstream.disconnects, it.upstream.count
    async with line(it) as leader:
        await leader.send(chat_request(said(prompt, stream=leader_streams)))
        await it.upstream.until(calls=calls + 1)
        follower = asyncio.create_task(ask(it, said(prompt, stream=follower_streams)))
        await asyncio.sleep(0.05)
    reply = await follower
    assert reply["cache-status"].endswith("collapsed")
    text = "".join(PIECES)
    if follower_streams:
        assert "".join(event["choices"][0]["delta"].get("content") or "" for event in reply.events[:-1]) == text
        assert reply.events[-1] == "[DONE]"
    else:
        assert reply.text == text
    assert it.upstream.count == calls + 1
    assert it.upstream.disconnects == left
    assert (await ask(it, said(prompt)))["x-lamina-cache"] == "HIT"
    await landed(it)


async def test_a_follower_that_leaves_disturbs_nobody(it: Stand, prompt: str) -> None:
    it.upstream.enqueue(Script(pieces=PIECES, delay_s=0.15, piece_delay_s=0.005))
    left, calls = it.upstream.disconnects, it.upstream.count
    leader = asyncio.create_task(ask(it, said(prompt, stream=True)))
    await it.upstream.until(calls=calls + 1)
    async with line(it) as follower:
        await follower.send(chat_request(said(prompt, stream=True)))
        await asyncio.sleep(0.05)
    assert (await leader).events[-1] == "[DONE]"
    assert it.upstream.disconnects == left
    assert (await ask(it, said(prompt)))["x-lamina-cache"] == "HIT"


async def test_the_last_of_many_to_leave_stops_the_model(it: Stand, prompt: str) -> None:
    it.upstream.enqueue(Script(hang_after=2))
    left, calls = it.upstream.disconnects, it.upstream.count
    async with line(it) as one, line(it) as two:
        await one.send(chat_request(said(prompt, stream=True)))
        await it.upstream.until(calls=calls + 1)
        await two.send(chat_request(said(prompt, stream=True)))
        await two.head()
        await one.close()
        await asyncio.sleep(0.1)
        assert it.upstream.disconnects == left
    await it.upstream.until(disconnects=left + 1)
    await landed(it)


async def test_a_late_follower_of_a_stream_gets_it_from_the_start(it: Stand, prompt: str) -> None:
    it.upstream.enqueue(SLOW)
    calls = it.upstream.count
    leader = asyncio.create_task(ask(it, said(prompt, stream=True)))
    await it.upstream.until(calls=calls + 1)
    await asyncio.sleep(0.2)
    late, early = await ask(it, said(prompt, stream=True)), await leader
    assert late["cache-status"].endswith("collapsed")
    texts = [
        [event["choices"][0]["delta"].get("content") for event in reply.events[:-1]] for reply in (early, late)
    ]
    assert texts[0] == texts[1]
    assert early.events[0]["id"] != late.events[0]["id"]


async def test_a_failed_flight_fails_its_followers_alike(it: Stand, prompt: str) -> None:
    it.upstream.enqueue(Script(status=429, body={"error": {"message": "busy"}}, delay_s=0.1))
    calls = it.upstream.count
    replies = await asyncio.gather(*(ask(it, said(prompt, stream=stream)) for stream in (True, False, True)))
    assert [reply.status for reply in replies] == [429] * 3
    assert it.upstream.count == calls + 1
    assert (await ask(it, said(prompt)))["x-lamina-cache"] == "MISS"


async def test_one_line_serves_misses_hits_streams_and_errors_in_turn(it: Stand, prompt: str) -> None:
    bodies = [said(prompt), said(prompt), said(prompt, stream=True), said(prompt, n=0), said(prompt, stream=True)]
    async with line(it) as opened:
        statuses = []
        for body in bodies:
            await opened.send(chat_request(body))
            statuses.append((await opened.reply()).status)
        assert statuses == [200, 200, 200, 400, 200]
        for body in bodies:  # pipelined: all at once
            await opened.send(chat_request(body))
        assert [(await opened.reply()).status for _ in bodies] == statuses


async def test_a_client_that_leaves_before_its_body_is_read_leaves_no_trace(it: Stand, prompt: str) -> None:
    calls = it.upstream.count
    async with line(it) as opened:
        await opened.send(chat_request(said(prompt))[:-20])
    await asyncio.sleep(0.05)
    assert it.upstream.count == calls
    assert (await ask(it, said(prompt)))["x-lamina-cache"] == "MISS"
