"""What became of a prompt, told over HTTP: in usage, in the first chunk when asked, and by a pre-warm."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.fakes import ScriptedRunner, script
from tests.engine.serving import NAME, Served, serving

HELLO = [{"role": "user", "content": "hello"}]
COUNTS = {"cached_tokens", "cache_write_tokens", "cache_write_tokens_details"}


@pytest.fixture(scope="module")
def served(tiny_folder: Path) -> Iterator[Served]:
    with serving(tiny_folder, ScriptedRunner(300, script("Hi."))) as running:
        yield running


async def post(served: Served, **fields: Any) -> Any:
    async with served.http() as http:
        body = {"model": NAME, "messages": HELLO, "temperature": 0, "max_tokens": 9, **fields}
        return await http.post("/v1/chat/completions", json=body)


async def events(served: Served, **options: Any) -> list[dict[str, Any]]:
    text = (await post(served, stream=True, stream_options=options, n=2, seed=1)).text
    return [json.loads(event.removeprefix("data: ")) for event in text.split("\n\n")[:-2]]


async def test_a_whole_answer_tells_every_count(served: Served) -> None:
    usage = (await post(served)).json()["usage"]
    assert usage["prompt_tokens_details"].keys() >= COUNTS
    read, written = (usage["prompt_tokens_details"][name] for name in ("cached_tokens", "cache_write_tokens"))
    assert 0 <= read + written <= usage["prompt_tokens"]


async def test_the_first_chunk_alone_tells_the_prompt_when_asked(served: Served) -> None:
    chunks = await events(served, include_usage=True, include_prompt_usage=True)
    early = [chunk["prompt_usage"] for chunk in chunks if "prompt_usage" in chunk]
    assert early == [chunks[0]["prompt_usage"]]
    assert early[0]["completion_tokens"] == 0
    last = chunks[-1]["usage"]
    assert (early[0]["prompt_tokens"], early[0]["prompt_tokens_details"]) == (
        last["prompt_tokens"],
        last["prompt_tokens_details"],
    )
    assert all(chunk["usage"] is None for chunk in chunks[:-1])


async def test_nobody_else_sees_it(served: Served) -> None:
    for options in ({"include_usage": True}, {"include_prompt_usage": False}, {}):
        assert not any("prompt_usage" in chunk for chunk in await events(served, **options))


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
async def test_a_pre_warm_computes_the_prompt_and_says_nothing(served: Served, name: str) -> None:
    answer = (await post(served, **{"max_tokens": None, name: 0})).json()
    (choice,) = answer["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("", "length")
    assert answer["usage"]["completion_tokens"] == 0
    assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > 0


async def test_a_bad_mark_is_a_400_that_names_it(served: Served) -> None:
    marked = [{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "no"}}]}]
    refused = await post(served, messages=marked)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "messages[0].content[0].cache_control"
