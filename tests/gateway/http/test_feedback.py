"""POST /v1/feedback: a wrong answer is gone for good, everywhere, and for its own tenant only."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.db.budget import BudgetRepository
from tests.gateway.http.wire import Reply, ask, line, said
from tests.gateway.semantic_stand import PARAPHRASE, QUESTION, Meaning, meaning
from tests.gateway.stand import KEY, Stand, stand
from tests.servers.redis import RedisServer

LEARNS = {"rule": "learned", "min_probability": 0.0, "audit_share": 0.0, "max_wrong": 0.9}


@pytest_asyncio.fixture
async def it(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Meaning]:
    """A gateway whose budget is wide enough to serve what it has hardly met."""
    async with meaning(tmp_path, redis_server, semantic=LEARNS) as running:
        await warmed(running)
        yield running


async def warmed(it: Meaning) -> None:
    """Returns when the budget has read what was learnt before: nothing."""
    await it.ask("warm the budget up")
    gateway = it.it.app.gateway
    assert gateway is not None
    assert gateway.learning is not None
    await asyncio.gather(*gateway.learning.budget._loading)


async def feedback(it: Stand, body: str, key: str | None = KEY) -> Reply:
    """One feedback as a client sends it."""
    raw = body.encode()
    auth = "" if key is None else f"authorization: Bearer {key}\r\n"
    head = f"POST /v1/feedback HTTP/1.1\r\nhost: x\r\n{auth}content-length: {len(raw)}\r\n\r\n"
    async with line(it) as one:
        await one.send(head.encode() + raw)
        return await one.reply()


def wrong(id_: str, verdict: str = "wrong") -> str:
    return f'{{"id": "{id_}", "verdict": "{verdict}", "note": "it rained"}}'


async def test_a_wrong_semantic_answer_takes_row_copy_and_source_along(it: Meaning) -> None:
    first = await it.taught()
    served = await it.ask(PARAPHRASE)
    assert "hit" in served["cache-status"]
    done = await feedback(it.it, wrong(served["x-lamina-cache-id"]))
    assert done.status == 200
    assert done.json["quarantined"] == 1
    assert set(done.json["purged"]) == {served["x-lamina-cache-id"], first["x-lamina-cache-id"]}
    assert [row.state for row in await it.rows() if row.key.hex() == first["x-lamina-cache-id"]] == ["quarantined"]
    assert "hit" not in (await it.ask(PARAPHRASE))["cache-status"]
    told = await it.ask(QUESTION)  # the paraphrase's fresh answer may have become a row by now
    assert "detail=semantic" in told["cache-status"] or "fwd" in told["cache-status"]
    assert told.get("x-lamina-cache-source-key") != first["x-lamina-cache-id"]


async def test_the_budget_learns_of_it(it: Meaning) -> None:
    await it.taught()
    served = await it.ask(PARAPHRASE)
    done = await feedback(it.it, wrong(served["x-lamina-cache-id"]))
    assert done.json["labels"] == 1
    labels = await BudgetRepository(it.it.database).after(0, 10)
    assert [(label.right, label.how, label.share) for label in labels if label.how == "feedback"] == [
        (False, "feedback", None)
    ]


async def test_a_right_answer_only_teaches(it: Meaning) -> None:
    await it.taught()
    served = await it.ask(PARAPHRASE)
    done = await feedback(it.it, wrong(served["x-lamina-cache-id"], "right"))
    assert (done.status, done.json["labels"], done.json["purged"]) == (200, 1, [])
    assert "hit" in (await it.ask(PARAPHRASE))["cache-status"]


async def test_saying_it_twice_changes_nothing_more(it: Meaning) -> None:
    served = await it.taught()
    first = await feedback(it.it, wrong(served["x-lamina-cache-id"]))
    again = await feedback(it.it, wrong(served["x-lamina-cache-id"]))
    assert (first.json["already"], again.status, again.json["already"]) == (False, 200, True)
    assert again.json["purged"] == []


async def test_another_tenants_answer_is_unknown(it: Meaning) -> None:
    served = await it.taught()
    other = await it.it.tenant("other")
    done = await feedback(it.it, wrong(served["x-lamina-cache-id"]), other)
    assert (done.status, done.json["error"]["code"]) == (404, "unknown_answer")
    assert "hit" in (await it.ask(QUESTION))["cache-status"]


async def test_neighbours_that_nobody_names_are_said_to_be_unknown(it: Meaning) -> None:
    """The service fails: the entry itself is gone all the same."""
    served = await it.taught()
    it.service.near_status = 500
    done = await feedback(it.it, wrong(served["x-lamina-cache-id"]))
    assert done.json["neighbours"] is None
    assert done.json["quarantined"] == 1


async def test_an_audit_reaches_the_database(tmp_path: Path, redis_server: RedisServer) -> None:
    """Every would-be hit audited: the client gets the model's answer, and the budget a label."""
    semantic = {**LEARNS, "audit_share": 1.0}
    async with meaning(tmp_path, redis_server, semantic=semantic) as it:
        await warmed(it)
        await it.taught()
        reply = await it.ask(PARAPHRASE)
        assert "semantic_audit" in reply["cache-status"]
        gateway = it.it.app.gateway
        assert gateway is not None
        assert gateway.learning is not None
        await gateway.learning.audits.drained()
        [label] = await BudgetRepository(it.it.database).after(0, 10)
        assert (label.how, label.share, label.pool.route) == ("audit", 1.0, "m")


async def test_an_exact_answer_without_a_semantic_layer(tmp_path: Path, redis_server: RedisServer) -> None:
    async with stand(tmp_path, redis_server) as it:
        first = await ask(it, said("hello"))
        id_ = first["x-lamina-cache-id"]
        assert (await feedback(it, wrong(id_))).json["purged"] == [id_]
        assert (await ask(it, said("hello")))["x-lamina-cache"] != "HIT"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ("{", 400, "invalid_json"),
        ('{"verdict": "wrong"}', 400, "missing_id"),
        ('{"id": "x", "verdict": "bad"}', 400, "bad_verdict"),
        ('{"id": "x", "verdict": "wrong", "more": 1}', 400, "unknown_field"),
        (wrong("x"), 404, "unknown_answer"),
        (wrong("0" * 64), 404, "unknown_answer"),
        (wrong("Z" * 64), 404, "unknown_answer"),
    ],
)
async def test_refusals(tmp_path: Path, redis_server: RedisServer, body: str, status: int, code: str) -> None:
    async with stand(tmp_path, redis_server) as it:
        reply = await feedback(it, body)
        assert (reply.status, reply.json["error"]["code"]) == (status, code)
        assert (await feedback(it, body, None)).status == 401
        assert (await feedback(it, body, "lam_nobody")).status == 401
