"""Whole sets of real processes: the real engine dies and comes back, a set drains, ends and starts again."""

import asyncio
from pathlib import Path

import pytest

from tests.gateway.http.wire import Reply, ask, chat_request, line, metric, native, said
from tests.gateway.stand import KEY
from tests.gateway.whole_set import WholeSet, until, upstream_of, whole_set
from tests.upstream import Script, Upstream

pytestmark = pytest.mark.slow
LONG = {"model": "smollm2", "max_tokens": 400, "temperature": 0}
KEY_OF_TWO = "lam_test_key_of_the_second_set"
STREAMS = 8
STREAM_S = 1.5


async def test_a_killed_engine_fails_its_own_requests_only_and_comes_back(tmp_path: Path) -> None:
    with whole_set(tmp_path / "home", LAMINA_ENGINE__ENABLED="true") as it:
        await it.start()
        async with upstream_of(it):
            assert (await ask(it, said("Say hello.", model="smollm2", max_tokens=8))).status == 200
            await _figures_of_the_engine(it)
            await _killed_in_mid_answer(it)
            assert (await ask(it, said("the other model"))).status == 200
            await until(lambda: _answers(it, "Are you back?"), within_s=30)
        assert it.running.stop() == 0


async def _figures_of_the_engine(it: WholeSet) -> None:
    async with line(it) as streaming:
        await streaming.send(chat_request(said("Tell me a long story.", stream=True, **LONG)))
        assert (await streaming.head()).status == 200
        await anext(streaming.parts())
        page = await it.page()
    assert metric(page, "lamina_engine_running") == 1
    assert metric(page, "lamina_engine_waiting") == 0
    assert 0 < metric(page, "lamina_engine_kv_blocks_used") < metric(page, "lamina_engine_kv_blocks_total")
    assert metric(page, "lamina_engine_time_to_first_token_seconds_count") >= 2
    assert metric(page, "lamina_engine_time_per_output_token_seconds_count") >= 7
    await until(lambda: _none_runs(it), within_s=5)  # the client left


async def _none_runs(it: WholeSet) -> bool:
    return await it.figure("lamina_engine_running") == 0


async def _killed_in_mid_answer(it: WholeSet) -> None:
    async with line(it) as streaming, line(it) as whole:
        await whole.send(chat_request(said("Write a long poem.", **LONG)))
        await streaming.send(chat_request(said("Write a long letter.", stream=True, **LONG)))
        assert (await streaming.head()).status == 200
        parts = streaming.parts()
        await anext(parts)
        it.kill("engine")
        rest = Reply(200, (), b"".join([part async for part in parts]))
        assert rest.events[-1].keys() == {"error"}, "a stream that was cut ends as if it were whole"
        reply = await whole.reply()
        native(reply, reply.status, type="server_error")
        assert reply.status in (502, 503)


async def _answers(it: WholeSet, text: str) -> bool:
    reply = await ask(it, said(text, model="smollm2", max_tokens=4))
    assert reply.status in (200, 502, 503)
    return reply.status == 200


async def test_sigterm_under_load_cuts_nobody_and_what_is_stored_outlives_it(tmp_path: Path) -> None:
    with whole_set(tmp_path / "home", LAMINA_LIMITS__DRAIN_S="10") as it:
        await it.start()
        async with upstream_of(it) as upstream:
            other = await _other_tenant(it)
            for key in (KEY, other):
                assert (await ask(it, said("stored"), key=key))["x-lamina-cache"] == "MISS"
            await _end_under_load(it, upstream)
            told = await it.done("purge", "--tenant", "default", "--all")
            assert told["seq"] == 1
            await it.start()
            assert (await ask(it, said("stored"), key=KEY))["x-lamina-cache"] == "MISS"
            for _ in range(6):
                assert (await ask(it, said("stored"), key=other))["x-lamina-cache"] == "HIT"
        assert it.running.stop() == 0


async def _other_tenant(it: WholeSet) -> str:
    await it.done("tenants", "create", "bee")
    return str((await it.done("keys", "create", "--tenant", "bee"))["key"])


async def _end_under_load(it: WholeSet, upstream: Upstream) -> None:
    upstream.default = Script(pieces=["word "] * 15, piece_delay_s=STREAM_S / 15)
    streams = [asyncio.create_task(ask(it, said(f"stream {number}", stream=True))) for number in range(STREAMS)]
    await upstream.until(calls=upstream.count + STREAMS, within_s=5)
    wholes = [asyncio.create_task(ask(it, said(f"stream {number}"))) for number in range(STREAMS)]
    hits = [asyncio.create_task(_hit_until_closed(it)) for _ in range(4)]
    await asyncio.sleep(STREAM_S / 3)
    status = await asyncio.to_thread(it.running.stop)
    assert status == 0, it.running.output
    for reply in await asyncio.gather(*streams):
        assert reply.status == 200
        assert reply.events[-1] == "[DONE]"
        assert reply.body.count(b"word ") == 15
    assert {(reply.status, reply.text) for reply in await asyncio.gather(*wholes)} == {(200, "word " * 15)}
    assert all(count > 0 for count in await asyncio.gather(*hits))
    assert "Traceback" not in it.running.output


async def _hit_until_closed(it: WholeSet) -> int:
    """Asks on one connection until the server closes it, which it may do between two answers only."""
    count = 0
    async with line(it) as opened:
        while True:
            await opened.send(chat_request(said("stored")))
            try:
                first = await opened.reader.readexactly(1)
            except (asyncio.IncompleteReadError, ConnectionError):
                return count
            opened.reader._buffer[:0] = first
            assert (await opened.reply()).status == 200
            count += 1


async def test_two_sets_side_by_side_share_nothing(tmp_path: Path) -> None:
    with whole_set(tmp_path / "one") as one, whole_set(tmp_path / "two", LAMINA_BOOTSTRAP_KEY=KEY_OF_TWO) as two:
        await asyncio.gather(one.start(), two.start())
        async with upstream_of(one) as first, upstream_of(two) as second:
            first.default, second.default = Script(pieces=("one",)), Script(pieces=("two",))
            assert await _twice(one, KEY) == [("MISS", "one"), ("HIT", "one")]
            assert await _twice(two, KEY_OF_TWO) == [("MISS", "two"), ("HIT", "two")]
            native(await ask(one, said("who?"), key=KEY_OF_TWO), 401)
            native(await ask(two, said("who?"), key=KEY), 401)
            await one.done("purge", "--tenant", "default", "--all")
            assert one.running.stop() == 0
            assert await _twice(two, KEY_OF_TWO) == [("HIT", "two")] * 2
            assert metric(await two.page(), "lamina_requests_total", status="200") == 4
        assert two.running.stop() == 0


async def _twice(it: WholeSet, key: str) -> list[tuple[str, str]]:
    replies = [await ask(it, said("who?"), key=key) for _ in range(2)]
    return [(reply["x-lamina-cache"], reply.text) for reply in replies]
