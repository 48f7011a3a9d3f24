"""Versions in a whole set of real processes: a change by `lamina versions` holds at both workers, no further."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.http.wire import Line, Pair, chat_request
from tests.gateway.whole_set import WholeSet, upstream_of, whole_set
from tests.upstream import Script, Upstream

pytestmark = pytest.mark.slow
HELP = "You help the customers of Acme with their orders."
POET = "You write poems about the sea."
NAMED = ("x-lamina-versions", "kb=1")


@pytest.fixture(scope="module")
def it(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeSet]:
    with whole_set(tmp_path_factory.mktemp("versions") / "home") as one:
        asyncio.run(one.start())
        yield one
        assert "Traceback" not in one.running.output
        assert one.running.stop() == 0


@pytest.fixture
async def upstream(it: WholeSet) -> AsyncIterator[Upstream]:
    """The set's model provider."""
    async with upstream_of(it) as one:
        yield one


async def said(line: Line, system: str, *headers: Pair) -> tuple[str, str]:
    """What the cache said of a question under these instructions, and the answer."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "Where is it?"}]
    body: dict[str, Any] = {"model": "m", "messages": messages}
    await line.send(chat_request(body, headers))
    reply = await line.reply()
    return reply["x-lamina-cache"], reply.text


async def test_a_change_holds_for_the_next_request_at_every_worker(
    it: WholeSet, upstream: Upstream, tmp_path: Path
) -> None:
    text = tmp_path / "help.txt"
    text.write_text(HELP)
    own = ("--tenant", "default")
    await it.done("versions", "register", "kb@1", "--kind", "knowledge_base", *own)
    on = ("--depends-on", "kb", "--instruction", str(text))
    await it.done("versions", "register", "help@1", "--kind", "prompt", *on, *own)
    upstream.default = Script(pieces=("before",))
    async with it.lines() as lines:
        one, other = lines.values()
        for asked in ((HELP,), (POET,), ("Be brief.", NAMED)):
            await said(one, *asked)
            assert await said(other, *asked) == ("HIT", "before")
        impact = await it.done("versions", "impact", "kb", *own)
        assert (impact["matches"]["exact"], impact["taken"]) == (2, ["help@1", "kb@1"])
        upstream.default = Script(pieces=("after",))
        changed = await it.done("versions", "register", "kb@2", "--kind", "knowledge_base", *own)
        assert changed["announced"] is True
        assert await said(other, HELP) == ("MISS", "after")
        assert await said(one, "Be brief.", NAMED) == ("MISS", "after")
        for line in (one, other):
            assert await said(line, HELP) == ("HIT", "after")
            assert await said(line, POET) == ("HIT", "before")
        listed = await it.done("versions", "list", "--all", *own)
        live = [one["id"] for one in listed["versions"] if one["retired_at"] is None]
        assert live == ["help@1", "kb@2"]


async def test_what_makes_no_sense_is_told_in_one_line(it: WholeSet, tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps({"name": "no list"}))
    for words, status, problem in (
        (("register", "kb", "--kind", "prompt"), 2, "NAME@VERSION"),
        (("register", "x@1", "--kind", "prompt", "--depends-on", "nobody"), 1, "nobody is not registered"),
        (("register", "x@1", "--kind", "tools", "--tools", str(tools)), 1, "no JSON list of tools"),
        (("retire", "nobody@1"), 1, "nobody@1 is not registered"),
        (("impact", "nobody"), 1, "not registered"),
        (("list", "--tenant", "nobody"), 1, "there is no tenant"),
    ):
        told = await it.lamina("versions", *words)
        assert told.status == status, told
        assert problem.lower() in told.error.lower()
