"""A refresh that brings another answer makes its neighbours stale, everywhere; one that says the same does not."""

from pathlib import Path

import pytest

from gateway.changes import Changes
from tests.gateway.coalescing.conftest import listening
from tests.gateway.http.wire import control
from tests.gateway.semantic_stand import PARAPHRASE, QUESTION, Meaning, meaning
from tests.gateway.stand import running
from tests.servers.redis import RedisServer
from tests.upstream import Script

NEIGHBOUR = "How do I reset my password quickly?"


async def compared(stand: Meaning) -> None:
    """Returns when every refresh so far was compared."""
    gateway = stand.it.app.gateway
    assert gateway is not None
    assert isinstance(gateway.changes, Changes)
    await stand.settled()
    await gateway.changes.drained()
    await stand.settled()


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [("42 EUR", "57 EUR", "changed"), ("42 EUR", "42 eur.", "same")],
)
async def test_neighbours_and_copies_go_stale_when_the_answer_changed(
    tmp_path: Path, redis_server: RedisServer, first: str, second: str, result: str
) -> None:
    semantic = {"feedback_similarity": 0.5}
    async with meaning(tmp_path, redis_server, semantic=semantic) as stand:
        stand.it.upstream.default = Script(pieces=(first,))
        await stand.taught(NEIGHBOUR, ("x-lamina-cache-mode", "exact"))
        await stand.taught(NEIGHBOUR, control("no-cache"))
        await stand.taught(QUESTION, control("no-cache"))
        assert (await stand.ask(PARAPHRASE))["cache-status"].endswith("detail=semantic")
        assert (await stand.ask(PARAPHRASE))["x-lamina-cache"] == "HIT"
        await compared(stand)
        stand.it.upstream.default = Script(pieces=(second,))
        assert (await stand.ask(QUESTION, control("no-cache"))).text == second
        await compared(stand)
        assert await stand.counted("lamina_refreshed_answers_total", result=result) >= 1
        calls = stand.it.upstream.count
        told = {text: (await stand.ask(text)).text for text in (QUESTION, NEIGHBOUR, PARAPHRASE)}
        kept = second if result == "changed" else first
        assert told == {QUESTION: second, NEIGHBOUR: kept, PARAPHRASE: kept}
        assert stand.it.upstream.count == calls, "the fresh answer is not made stale by its own purge"


async def test_the_fresh_answer_stays_when_its_call_was_made_for_all_workers(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    async with meaning(tmp_path, redis_server) as one, running(one.it.settings, one.it.upstream) as it:
        await listening(redis_server, 2)
        two = Meaning(it, one.service)
        one.it.upstream.default = Script(pieces=("42 EUR",))
        await one.taught(QUESTION)
        one.it.upstream.default = Script(pieces=("57 EUR",))
        assert (await two.ask(QUESTION, control("min-fresh=999999"))).text == "57 EUR"
        await compared(two)
        assert await two.counted("lamina_refreshed_answers_total", result="changed") == 1
        assert await two.counted("lamina_cache_writes_total", reason="lease_lost") == 0
        for stand in (one, two):
            reply = await stand.ask(QUESTION)
            assert (reply["x-lamina-cache"], reply.text) == ("HIT", "57 EUR")
        assert one.it.upstream.count == 2


async def test_neighbours_whose_answers_always_differ_come_to_rest(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    exact, fresh = ("x-lamina-cache-mode", "exact"), control("no-cache")
    async with meaning(tmp_path, redis_server, semantic={"feedback_similarity": 0.5}) as stand:
        times = [f"It is {hour}:00." for hour in range(1, 6)]
        stand.it.upstream.enqueue(*(Script(pieces=(time,)) for time in times))
        for text in (QUESTION, NEIGHBOUR):
            await stand.taught(text, fresh)
        assert (await stand.ask(QUESTION, fresh)).text == times[2]
        await compared(stand)
        assert await stand.counted("lamina_refreshed_answers_total", result="changed") == 1
        assert (await stand.ask(NEIGHBOUR, exact)).text == times[3], "it went stale"
        await compared(stand)
        assert (await stand.ask(QUESTION, exact)).text == times[2]
        assert (await stand.ask(QUESTION, fresh)).text == times[4]
        await compared(stand)
        assert await stand.counted("lamina_refreshed_answers_total", result="often") == 1
        told = [(await stand.ask(text, exact)).text for text in (QUESTION, NEIGHBOUR)]
        assert told == [times[4], times[3]]
        assert stand.it.upstream.count == 5
