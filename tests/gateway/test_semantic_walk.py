"""A question that means the same gets the stored answer, in every form; and only where everything allows it."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import anthropic
import openai
import pytest
import pytest_asyncio

from tests.gateway.http.wire import control
from tests.gateway.semantic_stand import PARAPHRASE, QUESTION, Meaning, meaning
from tests.gateway.stand import KEY
from tests.servers.redis import RedisServer
from tests.upstream import Script


@pytest_asyncio.fixture
async def it(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Meaning]:
    """A gateway in mode semantic."""
    async with meaning(tmp_path, redis_server) as running:
        yield running


async def test_a_paraphrase_gets_the_stored_answer(it: Meaning) -> None:
    first = await it.taught()
    assert "fwd=uri-miss; detail=semantic_none" in first["cache-status"]
    second = await it.ask(PARAPHRASE)
    assert second["cache-status"].startswith("lamina; hit; ttl=")
    assert second["cache-status"].endswith("; detail=semantic")
    assert second["x-lamina-cache"] == "HIT"
    assert second.text == first.text
    assert second.json["id"] != first.json["id"]
    assert second["x-lamina-cache-source-key"] == first["x-lamina-cache-id"] != second["x-lamina-cache-id"]
    assert len(it.it.upstream.calls) == 1
    assert await it.counted("lamina_cache_lookups_total", layer="semantic", result="hit", reason="semantic") == 1
    assert await it.counted("lamina_tokens_saved_total", layer="semantic", kind="completion") > 0


async def test_what_was_served_by_meaning_is_exact_from_then_on(it: Meaning) -> None:
    first = await it.taught()
    await it.ask(PARAPHRASE)
    again = await it.ask(PARAPHRASE)
    assert again["cache-status"].endswith("; detail=exact")
    assert again["x-lamina-cache-source-key"] == first["x-lamina-cache-id"]
    assert len(it.service.asks) == 2
    await it.settled()
    assert len(await it.rows()) == 1, "a copy is no row"


async def test_a_streamed_hit_replays_as_a_stream(it: Meaning) -> None:
    first = await it.taught()
    reply = await it.ask(PARAPHRASE, stream=True)
    assert reply["cache-status"].endswith("; detail=semantic")
    parts = [event["choices"][0]["delta"].get("content", "") for event in reply.events[:-1]]
    assert "".join(parts) == first.text
    assert reply.events[-1] == "[DONE]"


async def test_the_official_sdk_sees_it_whole_and_streamed(it: Meaning) -> None:
    async with openai.AsyncOpenAI(api_key=KEY, base_url=it.it.base_url, max_retries=0) as client:
        told = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": QUESTION}])
        await it.settled()
        raw = await client.chat.completions.with_raw_response.create(
            model="m", messages=[{"role": "user", "content": PARAPHRASE}]
        )
        assert raw.headers["cache-status"].endswith("; detail=semantic")
        assert raw.parse().choices[0].message.content == told.choices[0].message.content
        stream = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "Change my password, how?"}], stream=True
        )
        parts = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
        assert "".join(parts) == told.choices[0].message.content
    assert len(it.it.upstream.calls) == 1


async def test_what_one_protocol_asked_another_may_answer_from(it: Meaning) -> None:
    async with anthropic.AsyncAnthropic(api_key=KEY, base_url=it.it.url, max_retries=0) as client:
        told = await client.messages.create(
            model="m", max_tokens=100, messages=[{"role": "user", "content": QUESTION}]
        )
        await it.settled()
        raw = await client.messages.with_raw_response.create(
            model="m", max_tokens=100, messages=[{"role": "user", "content": PARAPHRASE}]
        )
        assert raw.headers["cache-status"].endswith("; detail=semantic")
        assert (await raw.parse()).content[0] == told.content[0]
    reply = await it.ask("Please change my password", max_tokens=100)
    assert reply["cache-status"].endswith("; detail=semantic")
    assert len(it.it.upstream.calls) == 1


async def test_a_veto_and_a_doubt_are_told(it: Meaning) -> None:
    await it.taught("What is 5 % of 200?")
    assert "detail=semantic_veto_number" in (await it.ask("What is 15 % of 200?"))["cache-status"]
    assert "detail=semantic_unsure" in (await it.ask("What is 5 % of 200 in roman numerals?"))["cache-status"]
    misses = {"layer": "semantic", "result": "miss"}
    assert await it.counted("lamina_cache_lookups_total", reason="semantic_veto_number", **misses) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-lamina-cache-mode", "exact"),
        ("x-lamina-cache-mode", "off"),
        ("x-lamina-cache-key", "mine"),
        ("x-lamina-cache-namespace", "blue"),
        ("x-lamina-versions", "prompt=2"),
        ("cache-control", "no-cache"),
        ("cache-control", "max-age=0"),
        ("cache-control", "min-fresh=999999"),
    ],
)
async def test_a_request_may_have_it_otherwise(it: Meaning, name: str, value: str) -> None:
    await it.taught()
    reply = await it.ask(PARAPHRASE, (name, value))
    assert "fwd=" in reply["cache-status"]
    assert len(it.it.upstream.calls) == 2


async def test_who_wants_only_answers_to_this_very_request_gets_no_copy_of_another(it: Meaning) -> None:
    await it.taught()
    assert "detail=semantic" in (await it.ask(PARAPHRASE))["cache-status"]
    assert (await it.ask(PARAPHRASE))["cache-status"].endswith("; detail=exact")
    asked = await it.ask(PARAPHRASE, ("x-lamina-cache-mode", "exact"))
    assert "fwd=miss; detail=copy" in asked["cache-status"]
    assert len(it.it.upstream.calls) == 2
    again = await it.ask(PARAPHRASE, ("x-lamina-cache-mode", "exact"))
    assert "detail=exact" in again["cache-status"], "the model's own answer took the copy's place"


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 1.0},
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]},
        {"messages": [{"role": "system", "content": "Be rude."}, {"role": "user", "content": PARAPHRASE}]},
        {"messages": [{"role": "user", "content": "Hi"}, {"role": "user", "content": PARAPHRASE}]},
        {"model": "plain"},
    ],
    ids=["parameter", "tools", "instructions", "history", "another mode"],
)
async def test_everything_but_the_question_must_be_equal(it: Meaning, fields: dict[str, object]) -> None:
    await it.taught()
    reply = await it.ask(PARAPHRASE, **fields)
    assert "fwd=" in reply["cache-status"]


async def test_only_if_cached_is_content_with_meaning(it: Meaning) -> None:
    await it.taught()
    assert (await it.ask(PARAPHRASE, control("only-if-cached"))).status == 200
    assert (await it.ask("Where is Paris?", control("only-if-cached"))).status == 504
    assert len(it.it.upstream.calls) == 1


async def test_no_store_serves_and_leaves_nothing(it: Meaning) -> None:
    await it.taught("Where is Rome?", control("no-store"))
    assert await it.rows() == []
    await it.taught()
    assert (await it.ask(PARAPHRASE, control("no-store")))["cache-status"].endswith("; detail=semantic")
    assert (await it.ask(PARAPHRASE))["cache-status"].endswith("; detail=semantic"), "no copy was made"


async def test_the_copy_dies_with_its_source(it: Meaning) -> None:
    first = await it.taught()
    assert (await it.ask(PARAPHRASE))["cache-status"].endswith("; detail=semantic")
    await it.it.purge("key", first["x-lamina-cache-id"])
    reply = await it.ask(PARAPHRASE)
    assert "detail=purged" in reply["cache-status"]
    assert len(it.it.upstream.calls) == 2


async def test_a_purge_of_one_answer_keeps_meaning_from_bringing_it_back(it: Meaning) -> None:
    await it.taught()
    copied = await it.ask(PARAPHRASE)
    assert copied["cache-status"].endswith("; detail=semantic")
    await it.it.purge("key", copied["x-lamina-cache-id"])
    reply = await it.ask(PARAPHRASE)
    assert "fwd=" in reply["cache-status"], "neither the copy nor the row that it was made from"
    assert "; hit" in (await it.ask(QUESTION))["cache-status"], "who asked for it in other words still has it"


@pytest.mark.parametrize("kind", ["all", "tag", "model"])
async def test_a_purge_reaches_rows(it: Meaning, kind: str) -> None:
    await it.taught(QUESTION, ("x-lamina-cache-groups", "help"))
    await it.it.purge(kind, {"all": "", "tag": "help", "model": "m"}[kind])
    assert "detail=semantic_purged" in (await it.ask(PARAPHRASE))["cache-status"]


async def test_a_softly_purged_row_serves_who_accepts_it_and_is_refreshed(it: Meaning) -> None:
    await it.taught()
    await it.it.purge(mode="soft")
    reply = await it.ask(PARAPHRASE, control("max-stale=60"))
    assert reply["cache-status"].endswith("; detail=semantic-soft_purged")
    assert reply["x-lamina-cache"] == "STALE"
    await it.until_rows(2)


async def test_a_dead_row_makes_way_for_the_next(it: Meaning) -> None:
    await it.taught(QUESTION, ("x-lamina-cache-groups", "old"))
    await it.taught("How do I reset my password now?", ("cache-control", "no-cache"))
    await it.it.purge("tag", "old")
    assert (await it.ask("how do i reset my password?"))["cache-status"].endswith("; detail=semantic")


async def test_an_expired_row_does_not_serve(it: Meaning) -> None:
    await it.taught(QUESTION, ("x-lamina-cache-ttl", "1"))
    await asyncio.sleep(1.1)
    assert "detail=semantic_expired" in (await it.ask(PARAPHRASE))["cache-status"]


async def test_only_plain_whole_answers_become_rows(it: Meaning) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    it.it.upstream.enqueue(
        Script(pieces=None, tool_calls=[call], finish_reason="tool_calls"),
        Script(finish_reason="length"),
        Script(pieces=("I'm sorry, I can't.",)),
    )
    for number in range(3):
        await it.taught(f"Question {number}?")
    assert await it.rows() == []


async def test_the_same_question_keeps_one_row_with_the_newest_answer(it: Meaning) -> None:
    await it.taught()
    it.it.upstream.enqueue(Script(pieces=("newer",)))
    await it.taught(QUESTION, control("no-cache"))
    (row,) = await it.rows()
    assert row.asked == hashlib.sha256(QUESTION.encode()).digest()
    assert (await it.ask(PARAPHRASE)).text == "newer"


async def test_a_lost_exact_entry_is_found_again_by_its_row(it: Meaning, redis_server: RedisServer) -> None:
    first = await it.taught()
    redis_server.flush()
    again = await it.ask(QUESTION)
    assert again["cache-status"].endswith("; detail=semantic")
    assert again.text == first.text
    assert (await it.ask(QUESTION))["cache-status"].endswith("; detail=exact")


async def test_observing_counts_and_serves_nothing(it: Meaning) -> None:
    await it.taught(model="watched")
    reply = await it.ask(PARAPHRASE, model="watched")
    assert "fwd=miss; detail=observe" in reply["cache-status"]
    assert len(it.it.upstream.calls) == 2
    hits = {"layer": "semantic", "result": "would_hit", "reason": "semantic"}
    assert await it.counted("lamina_cache_lookups_total", **hits) == 1
    assert await it.counted("lamina_tokens_would_save_total", layer="semantic", kind="completion") > 0


async def test_a_storm_of_one_question_asks_the_service_once(it: Meaning) -> None:
    await it.taught()
    replies = await asyncio.gather(*(it.ask(PARAPHRASE) for _ in range(20)))
    assert {reply.status for reply in replies} == {200}
    assert len(it.it.upstream.calls) == 1
    assert len(it.service.asks) < 10


async def test_a_prompt_that_holds_a_secret_reaches_no_index(tmp_path: Path, redis_server: RedisServer) -> None:
    async with meaning(tmp_path, redis_server, guards={"deadline_ms": 1000}) as it:
        await it.taught("Write to jane.doe@gmail.com, my SSN is 536-22-1234.")
        assert await it.rows() == []
        assert it.service.asks == []
        skipped = {"layer": "semantic", "result": "skipped", "reason": "unclean"}
        assert await it.counted("lamina_cache_lookups_total", **skipped) == 1


async def test_conversations_are_compared_as_wholes(it: Meaning) -> None:
    def talk(about: str, last: str) -> dict[str, object]:
        told = [("user", f"Tell me about {about}"), ("assistant", "Gladly."), ("user", last)]
        return {"messages": [{"role": role, "content": content} for role, content in told]}

    await it.taught(**talk("my passphrase", "Can I reset it?"))
    reply = await it.ask("", **talk("the password", "Can I change it?"))
    assert reply["cache-status"].endswith("; detail=semantic")
    reply = await it.ask("", **talk("penguins", "Can I reset it?"))
    assert "fwd=uri-miss" in reply["cache-status"]
