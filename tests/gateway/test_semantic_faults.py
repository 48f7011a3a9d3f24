"""The service may die, hang, dawdle or lie, rows may be tampered with: the model answers, and it is counted."""

import asyncio
import math
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.nomination import Candidate, Nominated
from policies.purge_scopes import person
from policies.purges import Made, Purge, PurgeIndex
from tests.gateway.http.wire import Reply
from tests.gateway.semantic_stand import MODELS, PARAPHRASE, QUESTION, Meaning, meaning
from tests.gateway.stand import running, settings_for
from tests.servers.nominator import nominator_process
from tests.servers.redis import RedisServer
from tests.upstream import Upstream


@pytest_asyncio.fixture
async def it(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Meaning]:
    """A gateway in mode semantic whose service gets 200 ms."""
    async with meaning(tmp_path, redis_server, semantic={"deadline_ms": 200}) as running_:
        yield running_


async def missed(it: Meaning, reason: str, words: str = PARAPHRASE) -> Reply:
    """A question that the model answers, for this reason."""
    reply = await it.ask(words)
    assert reply.status == 200
    assert f"detail={reason}" in reply["cache-status"], reply["cache-status"]
    return reply


async def test_a_slow_service_costs_its_deadline_and_then_nothing(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    layer = {"deadline_ms": 200, "breaker_retry_ms": 3000}
    async with meaning(tmp_path, redis_server, semantic=layer) as it:
        await _slow_then_well(it)


async def _slow_then_well(it: Meaning) -> None:
    await it.taught()
    it.service.wait_s = 2.0
    for number in range(3):
        begun = time.perf_counter()
        await missed(it, "semantic_timeout", f"How can I change password number {number}?")
        assert time.perf_counter() - begun < 1.5
    asked = len(it.service.asks)
    for number in range(5):
        await missed(it, "semantic_down", f"Where is city {number}?")
    assert len(it.service.asks) == asked, "an open breaker asks nobody"
    it.service.wait_s = 0.0
    await _until_served(it, "a")


@pytest.mark.parametrize(
    ("raw", "status", "reason"),
    [
        (b"\xc1", 200, "garbled"),
        (b"", 200, "garbled"),
        (msgspec.msgpack.encode(Nominated((Candidate(1, math.nan),), 0, "m")), 200, "garbled"),
        (msgspec.msgpack.encode(Nominated((Candidate(1, 0.5, None, 1.5),), 0, "m")), 200, "garbled"),
        (b"\x94\x90\x00\xa1m\x94\x00\x00\x00\x00", 500, "status"),
        (b"\x91" * 100_000, 200, "garbled"),
    ],
    ids=["no msgpack", "nothing", "not a number", "no probability", "an error", "deep"],
)
async def test_nonsense_is_a_miss(it: Meaning, raw: bytes, status: int, reason: str) -> None:
    await it.taught()
    it.service.raw, it.service.status = raw, status
    await missed(it, f"semantic_{reason}")
    assert await it.counted("lamina_faults_total", part="semantic", reason=reason) == 1


async def test_rows_of_others_are_refused_whatever_the_service_says(it: Meaning) -> None:
    other = await it.it.tenant("other")
    await it.taught(QUESTION, key=other)
    await it.taught("What is the capital of France?")
    await it.taught(QUESTION, ("x-lamina-cache-namespace", "blue"))
    for row in await it.rows():
        it.service.told = (Candidate(row.row, 1.0, None, 1.0, "conversation"),)
        if row.question != (await it.rows())[1].question:
            await missed(it, "semantic_foreign", f"{PARAPHRASE} {row.row}")
    assert await it.counted("lamina_faults_total", part="semantic", reason="foreign_row") == 2


async def test_an_index_ahead_of_rows_or_behind_them_is_a_miss(it: Meaning) -> None:
    await it.taught()
    it.service.told = (Candidate(999, 1.0, None, 1.0),)
    await missed(it, "semantic_gone")
    it.service.told = ()
    await missed(it, "semantic_none", "How might I change the password?")


@pytest.mark.parametrize("column", ["sealed", "key", "question", "partition"])
async def test_a_swapped_row_is_a_miss(it: Meaning, column: str) -> None:
    await it.taught()
    await it.taught("Where is the office?", temperature=0.5)
    one, other = await it.rows()
    swap = f'UPDATE semantic_rows SET "{column}" = :value WHERE "row" = :row'  # noqa: S608  (of this test's own)
    await it.change(swap, value=getattr(other, column), row=one.row)
    it.service.told = (Candidate(one.row, 0.9, None, 1.0),)
    await missed(it, "semantic_foreign" if column == "partition" else "semantic_corrupt")
    assert len(it.it.upstream.calls) == 3


async def test_a_row_and_its_key_moved_together_are_noticed(it: Meaning) -> None:
    await it.taught()
    await it.taught("Where is the office?")
    one, other = await it.rows()
    move = 'UPDATE semantic_rows SET sealed = :sealed, "key" = :key WHERE "row" = :row'
    await it.change(move, sealed=other.sealed, key=other.key, row=one.row)
    await missed(it, "semantic_corrupt")
    assert await it.counted("lamina_faults_total", part="semantic", reason="entry_moved") == 1


async def test_a_tampered_or_quarantined_row_is_a_miss(it: Meaning) -> None:
    await it.taught()
    (row,) = await it.rows()
    it.service.told = (Candidate(row.row, 0.9, None, 1.0),)
    broken = row.sealed[:-1] + bytes([row.sealed[-1] ^ 1])
    await it.change("UPDATE semantic_rows SET sealed = :sealed", sealed=broken)
    await missed(it, "semantic_corrupt")
    await it.change("UPDATE semantic_rows SET sealed = :sealed, state = 'quarantined'", sealed=row.sealed)
    await missed(it, "semantic_quarantined", "How may I change my password?")


async def test_a_database_that_is_locked_costs_the_deadline_then_nothing(it: Meaning) -> None:
    await it.taught()
    gateway = it.it.app.gateway
    assert gateway is not None
    held = [asyncio.ensure_future(_hold(it)) for _ in range(4)]  # every connection of the pool
    await asyncio.sleep(0.05)
    for number in range(3):
        await missed(it, "semantic_rows", f"Change my password, please? {number}"[:-2] + "?" * number)
    await asyncio.gather(*held)


async def _hold(it: Meaning) -> None:
    gateway = it.it.app.gateway
    assert gateway is not None

    async def work(_: object) -> None:
        await asyncio.sleep(1.5)

    await gateway.database.read(work)


async def test_a_full_queue_drops_rows_and_counts_them(tmp_path: Path, redis_server: RedisServer) -> None:
    async with meaning(tmp_path, redis_server, semantic={"max_waiting": 1}) as it:
        await asyncio.gather(*(it.ask(f"Question number {number}?") for number in range(30)))
        await it.settled()
        lost = await it.counted("lamina_cache_writes_total", layer="semantic", result="lost", reason="queue_full")
        assert lost > 0
        assert len(await it.rows()) == 30 - lost


@pytest.mark.slow
async def test_a_service_that_is_killed_or_frozen_is_done_without(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    database_url, path = f"sqlite:///{tmp_path}/lamina.db", tmp_path / "s.sock"
    changes = {"cache": {"mode": "semantic"}, "models": MODELS, "semantic_url": f"unix://{path}"}
    layer = {"min_probability": 0.6, "deadline_ms": 300}
    with nominator_process(path, database_url) as service:
        async with Upstream() as upstream:
            made = settings_for(tmp_path, upstream, redis_server.url, semantic=layer, **changes)
            async with running(made, upstream) as stand:
                it = Meaning(stand, None)  # type: ignore[arg-type]  # it is another process
                await missed(it, "semantic_down", QUESTION)
                await it.settled()
                await asyncio.to_thread(service.start)
                await _until_served(it, "a")
                service.send(signal.SIGSTOP)
                begun = time.perf_counter()
                for number in range(6):
                    assert (await it.ask(f"What is it, the {number}th?")).status == 200
                assert time.perf_counter() - begun < 3 * 0.3 + 2
                service.send(signal.SIGCONT)
                await _until_served(it, "b")
                service.kill()
                for number in range(6):
                    assert (await it.ask(f"What was it, the {number}th?")).status == 200
                await asyncio.to_thread(service.start)
                await _until_served(it, "c")


async def _until_served(it: Meaning, mark: str) -> None:
    async with asyncio.timeout(30):
        number = 0
        while True:
            number += 1
            reply = await it.ask(f"{PARAPHRASE}{' ' * number}{'?' * ord(mark)}")
            if reply["cache-status"].endswith("; detail=semantic"):
                return
            await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_a_row_whose_model_call_began_before_a_purge_never_serves(it: Meaning) -> None:
    script = it.it.upstream.default
    it.it.upstream.default = type(script)(delay_s=0.4)
    asking = asyncio.create_task(it.ask(QUESTION))
    await it.it.upstream.until(calls=1)
    await it.it.purge()
    await asking
    await it.settled()
    assert len(await it.rows()) == 1
    await missed(it, "semantic_purged")


KINDS = st.sampled_from([("all", ""), ("tag", "t"), ("key", "aa"), ("key", "bb"), ("model", "m"), ("user", "u")])


@given(st.lists(st.tuples(KINDS, st.sampled_from(["hard", "soft"])), max_size=12), st.integers(0, 12))
@settings(max_examples=300)
def test_a_copy_dies_of_whatever_its_source_dies_of(purges: list[tuple[tuple[str, str], str]], as_of: int) -> None:
    index = PurgeIndex()
    rows = [Purge(seq, *scope, mode) for seq, (scope, mode) in enumerate(purges, 1)]  # type: ignore[arg-type]
    index.fold(rows, len(rows))
    source = Made("aa", ("m",), (person("user", "u"),), ("t",))
    copy = Made("bb", ("m",), (person("user", "u"),), ("t",), source_hex="aa")
    strength = {None: 0, "soft": 1, "hard": 2}
    assert strength[index.verdict(copy, as_of)] >= strength[index.verdict(source, as_of)]
    named = [row for row in rows if row.seq > as_of and (row.kind, row.value) != ("key", "bb")]
    expected = max((strength[row.mode] for row in named), default=0)
    assert strength[index.verdict(source, as_of)] == expected
