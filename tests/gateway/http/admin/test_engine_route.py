"""The engine's prefix tree as the administrator is told: whose it is, what it saved, and no word of a prompt."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp.web
import pytest
import pytest_asyncio
from click.testing import CliRunner

from gateway.cli.engine import engine as engine_command
from gateway.settings import EngineSettings
from tests.engine import tiny
from tests.engine.fakes import ScriptedRunner, script
from tests.engine.serving import NAME, Served, serving
from tests.gateway.http.admin.whole import ADMIN, Office, office
from tests.gateway.http.wire import ask, said
from tests.gateway.stand import KEY
from tests.servers.redis import RedisServer

WORDS = "the same words for everybody, " * 4


@pytest_asyncio.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Served]:
    """A real engine whose model says one thing."""
    folder = tiny.write_folder(tmp_path / "tiny")
    with serving(folder, ScriptedRunner(300, script("ok")), tiny.small_config(kv_tokens=4096)) as running:
        yield running


@pytest_asyncio.fixture
async def it(tmp_path: Path, redis_server: RedisServer, engine: Served) -> AsyncIterator[Office]:
    named = EngineSettings(enabled=False, name=NAME)
    async with office(tmp_path, redis_server, engine=named, engine_url=f"unix://{engine.path}") as one:
        yield one


async def chat(it: Office, text: str, key: str = KEY) -> None:
    reply = await ask(it.it, said(text, model=NAME, max_tokens=2), key=key)
    assert (reply.status, reply["x-lamina-cache"]) == (200, "MISS")


@contextlib.asynccontextmanager
async def telling(
    folder: Path, answer: Callable[[aiohttp.web.Request], Awaitable[aiohttp.web.StreamResponse]]
) -> AsyncIterator[None]:
    """A server of our own in the engine's place."""
    application = aiohttp.web.Application()
    application.router.add_get("/cache/prefixes", answer)
    runner = aiohttp.web.AppRunner(application)
    await runner.setup()
    await aiohttp.web.UnixSite(runner, str(folder / "e")).start()
    yield
    await runner.cleanup()


async def prefixes(it: Office) -> dict[str, Any]:
    told = await it.ask("GET", "/engine/prefixes")
    assert told.status == 200, told.body
    return dict(told.body)


async def test_each_tenants_tree_is_told_under_its_name(it: Office) -> None:
    bee = await it.it.tenant("bee")
    for number in range(3):
        await chat(it, f"{WORDS} {number}")
    await chat(it, WORDS, bee)
    told = await prefixes(it)
    assert (told["used"], told["trees"], told["block_size"], told["complete"]) == (True, 2, 4, True)
    ours, theirs = told["items"]
    assert (ours["name"], theirs["name"]) == ("default", "bee")
    assert ours["tenant_id"] == await it.it.tenant_id()
    start, *continued = ours["runs"]
    assert (start["parent"], start["start"], start["hits"], start["continuations"]) == (None, 0, 2, 3)
    assert 2 * (start["tokens"] - 16) <= start["saved_tokens"] <= 2 * start["tokens"]
    assert {one["parent"] for one in continued} == {0}
    assert sum(one["tokens"] for one in ours["runs"]) == ours["cached_tokens"]
    assert [one["hits"] for one in theirs["runs"]] == [0]
    assert told.keys() == {"used", "trees", "block_size", "complete", "items"}
    assert ours.keys() == {"tenant_id", "name", "cached_tokens", "runs"}
    assert all(type(value) in {int, type(None)} for run in ours["runs"] for value in run.values())


async def test_after_a_purge_of_persons_the_old_tree_is_nobodys(it: Office) -> None:
    await chat(it, WORDS)
    await it.it.purge(kind="tag", value="t")
    assert [one["name"] for one in (await prefixes(it))["items"]] == ["default"]
    await it.it.purge(kind="user", value="ann")
    await chat(it, WORDS + "again")
    told = (await prefixes(it))["items"]
    assert {one["name"]: one["tenant_id"] is None for one in told} == {"default": False, None: True}


async def test_the_command_line_shows_figures_and_tree(
    it: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINA_HOME", str(tmp_path))
    monkeypatch.setenv("LAMINA_ADMIN_KEY", ADMIN)
    monkeypatch.setenv("COLUMNS", "140")
    for number in range(3):
        await chat(it, f"{WORDS} {number}")

    async def shown(*arguments: str) -> str:
        done = await asyncio.to_thread(CliRunner().invoke, engine_command, [*arguments, "--url", it.it.url])
        assert done.exit_code == 0, done.output
        return done.output

    output = await shown("--prefixes")
    for text in ("KV blocks", "prefix hits", "time to first token", "default", "0 to "):
        assert text in output
    told = json.loads(await shown("--prefixes", "--json"))
    assert (told["used"], told["prefixes"]["items"][0]["name"]) == (True, "default")
    assert "prefixes" not in json.loads(await shown("--json"))


async def test_an_engine_that_is_away_is_told_of(it: Office, engine: Served) -> None:
    engine.path.rename(engine.path.with_suffix(".moved"))
    told = await it.ask("GET", "/engine/prefixes")
    engine.path.with_suffix(".moved").rename(engine.path)
    assert (told.status, told.body["code"]) == (503, "engine_unavailable")


async def test_without_an_engine_there_is_no_tree(tmp_path: Path, redis_server: RedisServer) -> None:
    async with office(tmp_path, redis_server) as it:
        assert await prefixes(it) == {"used": False, "reason": "no_engine"}


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"told": [{"name": 1}], "trees": 1, "complete": true, "block_size": 4}', b"\xff"]
)
async def test_what_is_no_outline_is_told_of(tmp_path: Path, redis_server: RedisServer, body: bytes) -> None:
    async def answer(_: aiohttp.web.Request) -> aiohttp.web.Response:
        return aiohttp.web.Response(body=body)

    async with telling(tmp_path, answer), office(tmp_path, redis_server, engine_url=f"unix://{tmp_path}/e") as it:
        told = await it.ask("GET", "/engine/prefixes")
    assert (told.status, told.body["code"]) == (503, "engine_unreadable")


async def test_an_engine_of_another_make_does_not_tell(tmp_path: Path, redis_server: RedisServer) -> None:
    async def answer(_: aiohttp.web.Request) -> aiohttp.web.Response:
        return aiohttp.web.Response(status=404)

    async with telling(tmp_path, answer), office(tmp_path, redis_server, engine_url=f"unix://{tmp_path}/e") as it:
        assert await prefixes(it) == {"used": False, "reason": "not_told"}


async def test_an_outline_that_comes_in_pieces_is_read_to_its_end(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    run = {
        **dict.fromkeys(
            ("number", "start", "tokens", "hits", "saved_tokens", "continuations", "pinned_tokens"), 0
        ),
        "parent": None,
    }
    trees = [{"name": str(number), "blocks": 1, "runs": [run]} for number in range(500)]
    body = json.dumps({"block_size": 16, "trees": 500, "complete": True, "told": trees}).encode()

    async def answer(request: aiohttp.web.Request) -> aiohttp.web.StreamResponse:
        reply = aiohttp.web.StreamResponse()
        await reply.prepare(request)
        for start in range(0, len(body), 20_000):
            await reply.write(body[start : start + 20_000])
            await asyncio.sleep(0.02)
        return reply

    async with telling(tmp_path, answer), office(tmp_path, redis_server, engine_url=f"unix://{tmp_path}/e") as it:
        assert len((await prefixes(it))["items"]) == 500
