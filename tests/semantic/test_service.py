"""The service as a process: nominations over the socket, growth and deletes by sequence, restarts and kills."""

import asyncio
import random
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from policies.nomination import Ask, Near, Nominated, Pairs, Texts
from policies.questions import Question
from tests.semantic.rows_stand import Rows, digest, migrated, partition_of, single, talk
from tests.semantic.serving import ServiceProcess, service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
async def rows(tmp_path: Path) -> AsyncIterator[Rows]:
    async with migrated(f"sqlite:///{tmp_path}/lamina.db") as made:
        yield made


def _ask(question: Question, at_least: int = 0, family: str = "family", limit: int = 4) -> Ask:
    return Ask(partition_of(question, family), digest(family), question, limit, at_least)


def _url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/lamina.db"


async def test_a_row_is_found_at_once_by_who_names_its_change(rows: Rows, tmp_path: Path) -> None:
    with service(tmp_path, _url(tmp_path)) as running:
        for text in ("How do I reset my password?", "Where is my parcel?", "Can I pay by card?"):
            last = await rows.put([single(text)])
            found: Nominated = await asyncio.to_thread(running.ask_caught_up, _ask(single(text), at_least=last))
            assert found.candidates[0].row == (await rows.numbers())[text]
            assert found.candidates[0].probability == 1.0
            assert found.reached >= last
        other = await asyncio.to_thread(running.ask_caught_up, _ask(single("Can I pay by card?"), family="other"))
        assert other.candidates == ()
        removed = (await rows.numbers())["Can I pay by card?"]
        await rows.table.remove(rows.tenant_id, [removed])
        quarantined = (await rows.numbers())["Where is my parcel?"]
        await rows.table.quarantine(rows.tenant_id, [quarantined], 5000.0)
        last = await rows.put([single("Something else entirely")])
        for text in ("Can I pay by card?", "Where is my parcel?"):
            found = await asyncio.to_thread(running.ask_caught_up, _ask(single(text), at_least=last))
            assert not {removed, quarantined} & {one.row for one in found.candidates}
        assert running.metric("lamina_semantic_rows") == 2
        assert running.stop() == 0


async def test_a_stop_leaves_a_snapshot_and_a_start_reads_it(rows: Rows, tmp_path: Path) -> None:
    questions = [single(f"Question number {number}?") for number in range(40)]
    questions += [talk("Hello", "Hi", f"And number {number}?") for number in range(5)]
    with service(tmp_path, _url(tmp_path)) as running:
        last = await rows.put(questions)
        assert (await asyncio.to_thread(running.ask_caught_up, _ask(questions[0], last))).reached >= last
        assert running.stop() == 0
    vectors = await rows.vectors()
    assert len(vectors) == 50
    numbers = await rows.numbers()
    await rows.table.remove(rows.tenant_id, [numbers["Question number 3?"]])
    with service(tmp_path, _url(tmp_path)) as running:
        assert "snapshot: 45 rows" in running.said()
        assert "44 rows, of which 0 were read anew" in running.said()
        found = await asyncio.to_thread(running.ask_caught_up, _ask(single("Question number 3?")))
        assert numbers["Question number 3?"] not in {one.row for one in found.candidates}
        assert running.metric('lamina_semantic_batch_size_count{model="embedder"}') >= 0
    for file in (tmp_path / "home").glob("*.arrays"):
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    with service(tmp_path, _url(tmp_path)) as running:
        assert "are not what was written" in running.said()
        assert running.metric("lamina_semantic_rows") == 44


async def test_the_same_last_turn_of_another_conversation_is_found_and_is_not_probable(
    rows: Rows, tmp_path: Path
) -> None:
    stored = talk("I flew to Rome", "Nice", "How long is the flight back?")
    with service(tmp_path, _url(tmp_path)) as running:
        last = await rows.put([stored])
        same = await asyncio.to_thread(running.ask_caught_up, _ask(stored, last))
        assert [(one.how, one.probability) for one in same.candidates] == [("turn", 1.0)]
        other = talk("I flew to Oslo", "Nice", "How long is the flight back?")
        found = await asyncio.to_thread(running.ask_caught_up, _ask(other))
        assert [one.how for one in found.candidates] == ["conversation"]
        assert found.candidates[0].veto or (found.candidates[0].probability or 0) < 0.5


async def test_two_services_agree_on_vectors_and_near_rows(rows: Rows, tmp_path: Path) -> None:
    last = await rows.put([single(f"Tell me about city {number}") for number in range(20)])
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with service(tmp_path / "a", _url(tmp_path)) as one, service(tmp_path / "b", _url(tmp_path)) as two:
        near = Near(rows.tenant_id, "Tell me about city 7", similarity=0.6)
        await asyncio.to_thread(one.ask_caught_up, _ask(single("x"), last))
        await asyncio.to_thread(two.ask_caught_up, _ask(single("x"), last))
        found = [await asyncio.to_thread(running.ask, near) for running in (one, two)]
        assert [row for row, _ in found[0].rows] == [row for row, _ in found[1].rows]
        assert found[0].rows[0][0] == (await rows.numbers())["Tell me about city 7"]
        assert (await asyncio.to_thread(one.ask, Near("other", "Tell me about city 7"))).rows == ()
        by_row = await asyncio.to_thread(one.ask, Near(rows.tenant_id, row=found[0].rows[0][0], similarity=0.99))
        assert by_row.rows[0][0] == found[0].rows[0][0]
    assert len(await rows.vectors()) == 20


async def test_killed_anywhere_the_index_equals_the_rows_after_a_start(rows: Rows, tmp_path: Path) -> None:
    draw = random.Random(11)
    running = ServiceProcess(tmp_path, _url(tmp_path), ["--snapshot-seconds", "0.5"])
    for kill in range(6):
        running.start()
        ends = time.monotonic() + draw.uniform(0.2, 3.0)
        while time.monotonic() < ends:
            await rows.put([single(f"Round {kill} question {draw.randrange(50)}")])
            numbers = list((await rows.numbers()).values())
            if draw.random() < 0.4:
                await rows.table.remove(rows.tenant_id, draw.sample(numbers, 1))
            await asyncio.sleep(0.01)
        running.kill()
    running.start()
    try:
        await asyncio.to_thread(running.wait_ready)
        live = await rows.numbers()
        near = await asyncio.to_thread(running.ask, Near(rows.tenant_id, "Round", similarity=-1, limit=1000))
        assert sorted(row for row, _ in near.rows) == sorted(live.values())
        vectors = await rows.vectors()
        for text in draw.sample(sorted(live), 10):
            asked = await asyncio.to_thread(running.ask, Texts((text,)))
            (written,) = (value for (row, _), value in vectors.items() if row == live[text])
            assert np.frombuffer(written, "<f4") @ np.frombuffer(asked.vectors[0], "<f4") > 0.999
    finally:
        running.kill()


def test_requests_that_cannot_be_served_say_why(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        packed = msgspec.msgpack.encode
        asked = Ask(b"p" * 32, b"f" * 32, single("x"))
        for path, body, status, said in [
            ("/v1/nominate", b"\xc1", 400, b"not what"),
            ("/v1/nominate", packed(msgspec.structs.replace(asked, partition=b"")), 400, b"partition"),
            ("/v1/nominate", packed(msgspec.structs.replace(asked, limit=0)), 400, b"limit"),
            ("/v1/nominate", packed(msgspec.structs.replace(asked, question=Question(()))), 400, b"turns"),
            ("/v1/embed", packed(Texts(())), 400, b"texts"),
            ("/v1/embed", packed(Texts(("x",) * 257)), 400, b"texts"),
            ("/v1/verify", packed(Pairs((("x", "y"),), kind="z")), 400, b"kind"),
            ("/v1/near", packed(Near("t", similarity=float("nan"))), 400, b"similarity"),
            ("/v1/near", packed(Near("t")), 400, b"text or a row"),
            ("/v1/near", packed(Near("t", row=1)), 404, b"no such row"),
            ("/v1/embed", b"\x00" * ((8 << 20) + 1), 413, b"larger"),
            ("/v2/embed", b"", 404, b"there is no"),
        ]:
            found = running.request("POST", path, body)
            assert (found[0], said in found[1]) == (status, True), (path, found)
        assert running.request("GET", "/v1/embed")[0] == 405
        assert running.ask(asked).candidates == ()
        verdicts = running.ask(Pairs((("same", "same"), ("It costs 5 euros?", "It costs 6 euros?")))).verdicts
        assert verdicts[0] == (None, 1.0)
        assert verdicts[1][0] is not None
        assert running.metric('lamina_semantic_requests_total{path="other",status="404"}') == 1


def test_a_port_needs_a_token_and_asks_for_it(tmp_path: Path) -> None:
    refused = ServiceProcess(tmp_path)
    refused.start()
    assert refused.process is not None
    refused.process.kill()
    refused.process.wait()
    (tmp_path / "token").write_text("secret\n")
    shutil.rmtree(tmp_path / "home", ignore_errors=True)
    with service(tmp_path, None, "--token-file", str(tmp_path / "token")) as running:
        body = msgspec.msgpack.encode(Texts(("x",)))
        assert running.request("POST", "/v1/embed", body)[0] == 401
        assert running.request("POST", "/v1/embed", body, Authorization="Bearer secreT")[0] == 401
        assert running.request("POST", "/v1/embed", body, Authorization="Bearer secret")[0] == 200
        assert running.request("GET", "/metrics")[0] == 401
        assert running.request("GET", "/health")[0] == 200
