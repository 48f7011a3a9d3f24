"""Explanations: each rule that can say no is told as the one, nothing is changed, and no model is called."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
from pydantic import SecretStr

from gateway.settings import ModelSettings
from policies.nomination import Candidate
from tests.gateway.http.wire import chat_request, fetch, line, measured, said
from tests.gateway.semantic_stand import MODELS, PARAPHRASE, QUESTION, Meaning, meaning
from tests.servers.redis import RedisServer

ADMIN = "lam_admin_" + "a" * 40
OTHERS = (ModelSettings(name="off", provider="up", mode="off"),)


@pytest_asyncio.fixture
async def it(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Meaning]:
    changes = {"admin_key": SecretStr(ADMIN), "models": MODELS + OTHERS}
    async with meaning(tmp_path, redis_server, **changes) as one:
        yield one


async def admin(it: Meaning, body: Any, key: str | None = ADMIN) -> tuple[int, Any]:
    async with line(it.it) as opened:
        await opened.send(chat_request(body, key=key, path="/admin/v1/explain"))
        reply = await opened.reply()
    return reply.status, orjson.loads(reply.body)


async def explained(it: Meaning, words: str, *, headers: dict[str, str] | None = None, **fields: Any) -> Any:
    body: dict[str, Any] = {"tenant": "default", "request": said(words, **fields)}
    status, told = await admin(it, body if headers is None else body | {"headers": headers})
    assert status == 200, told
    return told


async def test_an_exact_hit_and_its_key(it: Meaning) -> None:
    reply = await it.taught()
    told = await explained(it, QUESTION)
    assert (told["verdict"], told["layer"], told["rule"]) == ("hit", "exact", "exact")
    assert told["key"] == reply["x-lamina-cache-id"]
    assert told["exact"]["request_id"] == reply["x-request-id"]
    assert told["exact"]["ttl_s"] > 80_000
    assert told["route"]["mode"] == "semantic"
    assert told["meaning"] is None
    assert {"tenant", "model", "question"} <= set(told["parts"])


async def test_nothing_is_stored_at_all(it: Meaning) -> None:
    told = await explained(it, QUESTION)
    assert (told["verdict"], told["exact"]["reason"]) == ("miss", "absent")
    assert told["rule"] == "semantic_none"
    assert told["because"] == "No stored question is near."
    assert told["nearest"] == []


async def test_a_hit_by_meaning_with_its_numbers(it: Meaning) -> None:
    await it.taught()
    told = await explained(it, PARAPHRASE)
    assert (told["verdict"], told["layer"], told["rule"]) == ("hit", "semantic", "semantic")
    (candidate,) = told["meaning"]["candidates"]
    assert candidate["question"] == QUESTION
    assert candidate["refused"] is None
    assert candidate["budget"]["chance"] >= 0.6
    assert candidate["entry"]["decision"] == "hit"
    assert told["meaning"]["served_share"] == 1.0
    assert told["meaning"]["models"] == "words-1"


async def test_a_hit_that_the_budget_still_explores(tmp_path: Path, redis_server: RedisServer) -> None:
    learning = {"rule": "learned", "min_probability": 0.5, "max_wrong": 0.05}
    async with meaning(tmp_path, redis_server, admin_key=SecretStr(ADMIN), semantic=learning) as it:
        await it.taught()
        it.service.told = (Candidate(1, 0.97, None, 0.98),)
        await explained(it, PARAPHRASE)
        async with asyncio.timeout(5):
            while (told := await explained(it, PARAPHRASE))["rule"] == "semantic_loading":  # noqa: ASYNC110  (no event)
                await asyncio.sleep(0.05)
        (candidate,) = told["meaning"]["candidates"]
        assert candidate["budget"]["caution"] == "normal"
        assert candidate["budget"]["labels"] == 0
        assert (told["verdict"], told["rule"]) == ("hit", "semantic")
        assert 0 < told["meaning"]["served_share"] < 1
        assert "go to the model all the same" in told["because"]
        budgets = orjson.loads((await fetch(it.it, "/admin/v1/budget", key=ADMIN)).body)["budgets"]
        assert [line["budget"] for line in budgets] == [0.05]


async def test_a_veto_is_named_with_what_it_saw(it: Meaning) -> None:
    await it.taught("How do I bake 4 loaves of bread?")
    told = await explained(it, "How do I bake 7 loaves of bread?")
    assert (told["verdict"], told["rule"]) == ("miss", "semantic_veto_number")
    (candidate,) = told["meaning"]["candidates"]
    assert candidate["refused"] == "semantic_veto_number"
    assert candidate["budget"] is None
    seen = dict(candidate["vetoes"])
    assert "4" in seen["number"]
    assert "7" in seen["number"]


async def test_too_unlikely_and_unjudged(it: Meaning) -> None:
    await it.taught()
    it.service.told = (Candidate(1, 0.91, None, 0.2),)
    assert (await explained(it, PARAPHRASE))["rule"] in {"semantic_unsure", "semantic_learn"}
    it.service.told = (Candidate(1, 0.91, None, None),)
    assert (await explained(it, PARAPHRASE))["rule"] == "semantic_unjudged"
    it.service.told = (Candidate(77, 0.91, None, 0.99),)
    told = await explained(it, PARAPHRASE)
    assert told["rule"] == "semantic_gone"
    assert told["meaning"]["candidates"][0]["question"] is None


async def test_purges_lives_and_controls(it: Meaning) -> None:
    await it.taught()
    assert (await explained(it, QUESTION, headers={"Cache-Control": "no-cache"}))["rule"] == "request"
    aged = await explained(it, QUESTION, headers={"cache-control": "max-age=0, min-fresh=99999999"})
    assert aged["verdict"] == "miss"
    assert aged["controls"]["min_fresh_s"] == 99999999.0
    await it.it.purge()
    told = await explained(it, QUESTION)
    assert told["exact"]["reason"] == "purged"
    assert told["exact"]["purged"] == "hard"
    assert told["rule"] == "purged"
    assert (await explained(it, PARAPHRASE))["rule"] == "semantic_purged"


async def test_stale_answers_that_the_operator_allows(tmp_path: Path, redis_server: RedisServer) -> None:
    cache = {"mode": "semantic", "stale_s": 60, "stale_while_revalidate_s": 60}
    async with meaning(tmp_path, redis_server, admin_key=SecretStr(ADMIN), cache=cache) as it:
        await it.taught()
        await it.it.purge(mode="soft")
        told = await explained(it, QUESTION)
        assert (told["verdict"], told["rule"]) == ("stale", "revalidating")
        assert (await it.ask(QUESTION))["cache-status"].startswith("lamina; hit")


async def test_what_differs_from_the_nearest_is_named(it: Meaning) -> None:
    await it.taught(temperature=0.5)
    told = await explained(it, QUESTION, temperature=0.7, seed=3)
    assert told["verdict"] == "miss"
    (nearest,) = told["nearest"]
    assert nearest["question"] == QUESTION
    assert nearest["differs"] == ["field:seed", "field:temperature"]
    told = await explained(it, QUESTION, temperature=0.5, headers={"x-lamina-versions": "kb=2"})
    assert told["nearest"][0]["differs"] == ["asked:kb"]


async def test_modes_and_bypasses(it: Meaning) -> None:
    assert (await explained(it, QUESTION, model="off"))["rule"] == "off"
    assert (await explained(it, QUESTION, web_search_options={}))["rule"] == "live_data"
    assert (await explained(it, QUESTION, model="plain"))["meaning"] == {
        "asked": False,
        "reason": "mode",
        "decision": "miss",
        "served_share": 0.0,
        "models": "",
        "spent_ms": [],
        "candidates": [],
    }
    await it.taught(model="watched")
    told = await explained(it, PARAPHRASE, model="watched")
    assert (told["verdict"], told["rule"]) == ("would_hit", "observe")


async def test_a_service_that_fails_is_told(it: Meaning) -> None:
    it.service.status = 500
    told = await explained(it, QUESTION)
    assert told["rule"] == "semantic_status"
    assert told["verdict"] == "miss"


async def test_another_tenants_answers_are_nothing(it: Meaning) -> None:
    await it.taught()
    await it.it.tenant("other")
    status, told = await admin(it, {"tenant": "other", "request": said(QUESTION)})
    assert status == 200
    assert (told["verdict"], told["nearest"]) == ("miss", [])
    assert told["meaning"]["candidates"] == []


async def test_nothing_changes_and_no_model_is_called(it: Meaning) -> None:
    await it.taught()
    calls, rows = it.it.upstream.count, await it.rows()
    counted = await measured(it.it, "lamina_cache_lookups_total")
    for words in (QUESTION, PARAPHRASE, "Something else?"):
        await explained(it, words)
    assert it.it.upstream.count == calls
    assert await it.rows() == rows
    assert await measured(it.it, "lamina_cache_lookups_total") == counted
    assert (await it.ask(PARAPHRASE))["cache-status"].startswith("lamina; hit")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"tenant": "nobody", "request": said("x")}, 404),
        ({"tenant": "default", "request": said("x", model="unknown")}, 404),
        ({"tenant": "default", "request": {"model": "m"}}, 400),
        ({"tenant": "default"}, 400),
        ({"request": said("x")}, 400),
        ({"tenant": "default", "request": said("x"), "headers": {"x-lamina-cache-ttl": "soon"}}, 400),
        ({"tenant": "default", "request": said("x"), "more": 1}, 400),
    ],
)
async def test_bad_questions_are_refused(it: Meaning, body: Any, status: int) -> None:
    assert (await admin(it, body))[0] == status


async def test_only_the_administrator_is_told(it: Meaning) -> None:
    body = {"tenant": "default", "request": said("x")}
    assert (await admin(it, body, key=None))[0] == 401
    assert (await admin(it, body, key=await it.it.tenant("north")))[0] == 403
    assert (await fetch(it.it, "/admin/v1/budget", key=ADMIN)).status == 200
    semantic = orjson.loads((await fetch(it.it, "/admin/v1/semantic", key=ADMIN)).body)
    assert semantic["healthy"] is True
    assert (await fetch(it.it, "/admin/v1/semantic", key="lam_nobody")).status == 401
