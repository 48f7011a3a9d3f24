"""Redis or the database dies, hangs, fills up or lies: what is left answers, and the fault is counted."""

import asyncio
import sqlite3
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.http.wire import CHAT, ask, chat_request, fetch, line, measured, native, said, words
from tests.gateway.stand import KEY, Stand, stand
from tests.servers.redis import RedisServer
from tests.upstream import Script

DEADLINE_S = 0.1
SLACK_S = 1.0
OVERHEAD_S = 0.05
BACK_WITHIN_S = 5.0
BREAKER_FAILURES = 3


@pytest.fixture
async def it(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Stand]:
    """A gateway over a Redis that a test may harm."""
    async with stand(tmp_path, redis_server) as running:
        yield running


async def faults(it: Stand, **labels: str) -> float:
    return await measured(it, "lamina_faults_total", **labels)


async def back(it: Stand, text: str) -> float:
    """Seconds until answers are stored and found again."""
    began = time.monotonic()
    async with asyncio.timeout(BACK_WITHIN_S):
        while await words(it, said(text)) != "HIT":  # noqa: ASYNC110  (a gateway can only be asked again)
            await asyncio.sleep(0.05)
    return time.monotonic() - began


async def taken(it: Stand, texts: list[str]) -> list[float]:
    """Seconds that each of these prompts takes, one after another on one connection."""
    spent = []
    async with line(it) as opened:
        for text in texts:
            began = time.perf_counter()
            await opened.send(chat_request(said(text)))
            reply = await opened.reply()
            spent.append(time.perf_counter() - began)
            assert reply.status == 200
    return spent


async def test_a_killed_redis_costs_hits_and_no_request(it: Stand, prompt: str, redis_server: RedisServer) -> None:
    assert [await words(it, said(prompt)) for _ in range(2)] == ["MISS", "HIT"]
    redis_server.kill()
    for stream in (False, True, False, True, False):
        reply = await ask(it, said(prompt, stream=stream))
        assert reply.status == 200
        assert reply["cache-status"].startswith("lamina; fwd=miss; detail=store_unavailable; fwd-status=200")
    assert (await ask(it, said(prompt)))["x-lamina-cache-reason"] == "store_unavailable"
    assert (await ask(it, said(prompt), key="lam_wrong")).status == 401
    assert await faults(it, part="redis") >= BREAKER_FAILURES
    assert (await fetch(it, "/readyz", key=None)).json["status"] == "degraded"
    redis_server.start()
    assert await back(it, prompt) < BACK_WITHIN_S


@pytest.mark.slow
async def test_a_frozen_redis_costs_a_few_requests_a_tenth_of_a_second(
    it: Stand, prompt: str, redis_server: RedisServer
) -> None:
    usual = statistics.median(await taken(it, [f"{prompt} warm {i}" for i in range(20)]))
    await ask(it, said(prompt))
    redis_server.stop()
    try:
        first = await taken(it, [f"{prompt} first {i}" for i in range(BREAKER_FAILURES)])
        assert max(first) < usual + DEADLINE_S + SLACK_S
        after = await taken(it, [f"{prompt} after {i}" for i in range(30)])
        assert statistics.median(after) < usual + OVERHEAD_S
        assert sum(spent > usual + DEADLINE_S for spent in after) <= 4
        assert await faults(it, part="redis") >= BREAKER_FAILURES
        assert (await ask(it, said(prompt), ("cache-control", "only-if-cached"))).status == 504
    finally:
        redis_server.cont()
    assert await back(it, prompt) < BACK_WITHIN_S


async def test_many_at_once_wait_for_a_frozen_redis_together(
    it: Stand, prompt: str, redis_server: RedisServer
) -> None:
    await ask(it, said(prompt))
    redis_server.stop()
    try:
        began = time.monotonic()
        replies = await asyncio.gather(*(ask(it, said(f"{prompt} {i}")) for i in range(60)))
        assert time.monotonic() - began < 45 * DEADLINE_S, "one after the other would take all 60"
    finally:
        redis_server.cont()
    assert {reply.status for reply in replies} == {200}


@pytest.mark.slow
async def test_a_redis_that_is_absent_at_the_start_is_used_once_it_is_there(
    tmp_path: Path, prompt: str, redis_server: RedisServer
) -> None:
    redis_server.kill()
    async with stand(tmp_path, redis_server) as it:
        for _ in range(5):
            assert (await ask(it, said(prompt))).status == 200
        redis_server.start()
        assert await back(it, prompt) < BACK_WITHIN_S


def bulk(raw: bytes) -> bytes:
    """The string in Redis's reply."""
    head, _, rest = raw.partition(b"\r\n")
    return rest[: int(head[1:])]


def harms(own: bytes, other: bytes) -> dict[str, tuple[bytes, str]]:
    """What may have become of a value in the store, and how that is counted."""
    return {
        "garbage": (b"garbage", "entry_format"),
        "empty": (b"", "entry_format"),
        "a flipped bit": (own[:-3] + bytes([own[-3] ^ 1]) + own[-2:], "entry_mac"),
        "a flipped flag": (own[:3] + bytes([own[3] ^ 1]) + own[4:], "entry_mac"),
        "cut": (own[:-1], "entry_mac"),
        "another entry's value": (other, "entry_mac"),
    }


async def test_a_harmed_entry_is_a_miss_and_heals(it: Stand, prompt: str, redis_server: RedisServer) -> None:
    it.upstream.enqueue(Script(pieces=("own",)), Script(pieces=("other",)))
    names = [await entry_name(it, said(prompt)), await entry_name(it, said(prompt + " 2"))]
    own, other = (bulk(redis_server.command("GET", name)) for name in names)
    for harm, (value, reason) in harms(own, other).items():
        it.upstream.enqueue(Script(pieces=(f"after {harm}",)))
        counted = await faults(it, part="exact", reason=reason)
        redis_server.command("SET", names[0], value)
        reply = await ask(it, said(prompt))
        assert reply.text == f"after {harm}"
        assert reply["cache-status"] == "lamina; fwd=miss; detail=corrupt; fwd-status=200; stored"
        assert await faults(it, part="exact", reason=reason) == counted + 1
        assert await words(it, said(prompt)) == "HIT"


async def entry_name(it: Stand, body: object, key: str = KEY, tenant: str = "default") -> str:
    """Stores the answer to a prompt; returns the name of its Redis key."""
    reply = await ask(it, body, key=key)
    return f"lamina:{{{await it.tenant_id(tenant)}}}:e:{reply['x-lamina-cache-id']}"


async def test_another_tenants_value_under_our_key_is_a_miss(
    it: Stand, prompt: str, redis_server: RedisServer
) -> None:
    bee = await it.tenant("bee")
    it.upstream.enqueue(Script(pieces=("ours",)), Script(pieces=("theirs",)))
    ours = await entry_name(it, said(prompt))
    theirs = await entry_name(it, said(prompt), bee, "bee")
    redis_server.command("SET", ours, bulk(redis_server.command("GET", theirs)))
    assert (await ask(it, said(prompt))).text not in ("theirs", "ours")
    assert await faults(it, part="exact", reason="entry_mac") == 1


async def test_a_key_of_another_type_is_a_miss_and_heals(
    it: Stand, prompt: str, redis_server: RedisServer
) -> None:
    name = await entry_name(it, said(prompt))
    redis_server.command("DEL", name)
    redis_server.command("LPUSH", name, "x")
    assert [await words(it, said(prompt)) for _ in range(2)] == ["MISS", "HIT"]


@pytest.mark.parametrize("which", ["auth", "purge"])
async def test_a_false_sequence_never_lets_a_dead_entry_or_key_through(
    it: Stand, prompt: str, redis_server: RedisServer, which: str
) -> None:
    bee = await it.tenant("bee")
    name = f"lamina:{{{await it.tenant_id('bee')}}}:{which}"
    for value in ("garbage", "", "-5", "1e3", "0", "99999999", "999999999999999999999"):
        await ask(it, said(prompt), key=bee)
        await it.purge(tenant="bee")
        redis_server.command("SET", name, value)
        assert (await ask(it, said(prompt), key=bee))["x-lamina-cache"] == "MISS", value
        assert (await ask(it, said(prompt), key=bee))["x-lamina-cache"] == "HIT", value
        redis_server.command("DEL", name)


@pytest.mark.parametrize("which", ["auth", "purge"])
async def test_a_sequence_that_is_no_number_is_mended(
    it: Stand, prompt: str, redis_server: RedisServer, which: str
) -> None:
    await ask(it, said(prompt))
    await it.purge()
    name = f"lamina:{{{await it.tenant_id()}}}:{which}"
    kept = bulk(redis_server.command("GET", name))
    redis_server.command("SET", name, "garbage")
    await ask(it, said(prompt))
    async with asyncio.timeout(1):
        while bulk(redis_server.command("GET", name)) != kept:  # noqa: ASYNC110  (mended behind the answer)
            await asyncio.sleep(0.02)


async def test_a_full_redis_stores_nothing_and_answers_all(
    it: Stand, prompt: str, redis_server: RedisServer
) -> None:
    policy = "maxmemory-policy"
    kept = redis_server.command("CONFIG", "GET", policy).split(b"\r\n")[-2]
    await ask(it, said(prompt))
    redis_server.command("CONFIG", "SET", policy, "noeviction")
    redis_server.command("CONFIG", "SET", "maxmemory", "1")
    try:
        assert await words(it, said(prompt)) == "HIT"
        for number in range(5):
            for _ in range(2):
                reply = await ask(it, said(f"{prompt} {number}"))
                assert (reply.status, reply["x-lamina-cache"]) == (200, "MISS")
        assert await words(it, said(prompt)) == "HIT", "a refused write must not open the breaker"
        assert await measured(it, "lamina_cache_writes_total", result="lost") == 10, "all refused before that hit"
    finally:
        redis_server.command("CONFIG", "SET", "maxmemory", "64mb")
        redis_server.command("CONFIG", "SET", policy, kept)
    assert [await words(it, said(prompt + " x")) for _ in range(2)] == ["MISS", "HIT"]


@pytest.mark.parametrize("restart", [False, True], ids=["flushed", "restarted"])
async def test_what_was_purged_stays_purged_when_redis_forgets(
    it: Stand, prompt: str, redis_server: RedisServer, *, restart: bool
) -> None:
    name = await entry_name(it, said(prompt))
    stored = bulk(redis_server.command("GET", name))
    await it.purge()
    if restart:
        redis_server.restart()
    else:
        redis_server.flush()
    redis_server.command("SET", name, stored)
    assert await back_to(it, prompt) == "purged"


async def back_to(it: Stand, text: str) -> str:
    """The detail of the first answer that the store took part in."""
    async with asyncio.timeout(BACK_WITHIN_S):
        while True:
            reply = await ask(it, said(text), ("cache-control", "no-store"))
            detail = reply["cache-status"].partition("detail=")[2].partition(";")[0]
            if detail != "store_unavailable":
                return detail
            await asyncio.sleep(0.05)


async def test_a_locked_database_is_not_missed(it: Stand, prompt: str) -> None:
    await ask(it, said(prompt))
    foreign = sqlite3.connect(it.settings.home / "lamina.db", isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    try:
        assert await words(it, said(prompt)) == "HIT"
        assert await words(it, said(prompt + " 2")) == "MISS"
        assert (await ask(it, said(prompt), key="lam_wrong")).status == 401
    finally:
        foreign.execute("ROLLBACK")
        foreign.close()


async def lose_database(it: Stand) -> None:
    """From now on no call of the gateway reaches its database."""
    assert it.app.gateway is not None
    await it.app.gateway.database.close()


async def test_without_a_database_whoever_is_known_goes_on(it: Stand, prompt: str) -> None:
    await ask(it, said(prompt))
    await lose_database(it)
    assert await words(it, said(prompt)) == "HIT"
    assert (await ask(it, said(prompt, stream=True)))["x-lamina-cache"] == "HIT"
    assert [await words(it, said(prompt + " 2")) for _ in range(2)] == ["MISS", "HIT"]
    unknown = await ask(it, said(prompt), key="lam_unknown")
    native(unknown, 503, type="server_error", code="auth_unavailable")
    assert unknown["retry-after"] == "1"
    ready = await fetch(it, "/readyz", key=None)
    assert (ready.status, ready.json["status"]) == (200, "degraded")
    assert ready.json["parts"] == {"redis": "ok", "database": "down"}


async def test_a_purge_that_cannot_be_read_is_503_and_never_an_old_answer(it: Stand, prompt: str) -> None:
    await ask(it, said(prompt))
    await lose_database(it)
    await it.purge()
    native(await ask(it, said(prompt)), 503, code="auth_unavailable")


@pytest.mark.slow
async def test_a_bug_in_the_poll_is_counted_and_does_not_end_it(
    it: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    polled = asyncio.Event()

    async def broken() -> int:
        polled.set()
        raise ZeroDivisionError

    assert it.app.gateway is not None
    monkeypatch.setattr(it.app.gateway.replicas, "poll", broken)
    for _ in range(2):
        polled.clear()
        async with asyncio.timeout(3):
            await polled.wait()
    assert await faults(it, part="poll", reason="ZeroDivisionError") >= 1


async def test_without_database_and_redis_nobody_is_let_in(
    it: Stand, prompt: str, redis_server: RedisServer
) -> None:
    await ask(it, said(prompt))
    await lose_database(it)
    redis_server.kill()
    for path in (CHAT, "/v1/models"):
        reply = await (ask(it, said(prompt)) if path == CHAT else fetch(it, path))
        native(reply, 503, type="server_error", code="auth_unavailable")
        assert reply["retry-after"] == "1"
    assert await faults(it, part="db") >= 1
    assert len(it.upstream.calls) == 1
    ready = await fetch(it, "/readyz", key=None)
    assert (ready.status, ready.json["status"]) == (503, "unready")
    assert (await fetch(it, "/healthz", key=None)).status == 200
