"""Many requests, leavers, purges and a stuttering Redis at once: every answer belongs to its own question."""

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.http.wire import Line, Reply, chat_request, measured, said
from tests.gateway.stand import KEY, Stand, stand
from tests.servers.redis import RedisServer
from tests.upstream import Script

PROMPTS = 24
CALLERS = 12
ROUNDS = 40
LEAVE_WITHIN_S = 0.004


@pytest.fixture
async def it(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Stand]:
    """A gateway over an upstream that repeats each request."""
    async with stand(tmp_path, redis_server) as running:
        running.upstream.default = Script(echo=True)
        yield running


def question(name: str, number: int) -> str:
    return f"<{name} asks {number}>"


def check(reply: Reply, asked: str) -> None:
    """The answer repeats the question asked, and no other."""
    assert reply.status == 200
    text = reply.body.decode()
    assert asked in text
    assert text.count(" asks ") == 1


async def caller(it: Stand, name: str, key: str, dice: random.Random, *, leaves: bool) -> int:
    """Asks round after round, on one line while it lasts; returns how many answers came."""
    line, answers = await Line.open(it), 0
    for _ in range(ROUNDS):
        asked = question(name, dice.randrange(PROMPTS))
        headers = [("cache-control", "no-cache")] if dice.random() < 0.1 else []
        await line.send(chat_request(said(asked, stream=dice.random() < 0.5), headers, key))
        if leaves and dice.random() < 0.5:
            await asyncio.sleep(dice.random() * LEAVE_WITHIN_S)
            await line.close()
            line = await Line.open(it)
        else:
            check(await line.reply(), asked)
            answers += 1
    await line.close()
    return answers


async def storm(it: Stand, *, leaves: bool) -> int:
    keys = {"ann": KEY, "bee": await it.tenant("bee")}
    callers = (
        caller(it, name, key, random.Random(f"{name} {number}"), leaves=leaves and number % 2 == 0)
        for number in range(CALLERS // 2)
        for name, key in keys.items()
    )
    answers = sum(await asyncio.gather(*callers))
    async with asyncio.timeout(2):
        while await measured(it, "lamina_flights_in_progress"):  # noqa: ASYNC110  (a page can only be asked again)
            await asyncio.sleep(0.02)
    assert await measured(it, "lamina_faults_total", part="gateway") == 0
    assert await measured(it, "lamina_faults_total", part="exact") == 0
    return answers


async def test_leavers_mix_up_no_answers(it: Stand) -> None:
    answers = await storm(it, leaves=True)
    assert await measured(it, "lamina_requests_total", status="200") >= answers
    assert await measured(it, "lamina_cache_lookups_total", result="hit") > 0


@pytest.mark.slow
async def test_purges_in_between_change_no_answer(it: Stand) -> None:
    raging = asyncio.create_task(storm(it, leaves=False))
    while not raging.done():
        await it.purge()
        await asyncio.sleep(0.05)
    assert await raging == CALLERS * ROUNDS


@pytest.mark.slow
async def test_a_stuttering_redis_mixes_up_no_answers(it: Stand, redis_server: RedisServer) -> None:
    raging = asyncio.create_task(storm(it, leaves=True))
    pauses = itertools.cycle((0.25, 0.03, 0.1))  # past the deadline, well before it, just about then
    with contextlib.ExitStack() as thaw:
        thaw.callback(redis_server.cont)
        while not raging.done():
            redis_server.stop()
            await asyncio.sleep(next(pauses))
            redis_server.cont()
            await asyncio.sleep(0.1)
    assert await raging > 0
    assert await measured(it, "lamina_faults_total", part="redis") > 0
