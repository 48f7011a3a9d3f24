"""The engine's prefix tree as the administrator is told: whose it is, what it saved, and no word of a prompt."""

import asyncio
import json
from collections.abc import AsyncIterator
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
    assert (told["used"], told["tenants"], told["block_size"]) == (True, 2, 4)
    ours, theirs = told["items"]
    assert (ours["name"], theirs["name"]) == ("default", "bee")
    assert ours["tenant_id"] == await it.it.tenant_id()
    start, *continued = ours["runs"]
    assert (start["parent"], start["start"], start["uses"], start["continuations"]) == (None, 0, 2, 3)
    assert 2 * (start["tokens"] - 16) <= start["saved_tokens"] <= 2 * start["tokens"]
    assert {one["parent"] for one in continued} == {0}
    assert sum(one["tokens"] for one in ours["runs"]) == ours["cached_tokens"]
    assert [one["uses"] for one in theirs["runs"]] == [0]
    assert "same words" not in str(told)


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
    assert "same words" not in output


async def test_an_engine_that_is_away_is_told_of(it: Office, engine: Served) -> None:
    engine.path.rename(engine.path.with_suffix(".moved"))
    told = await it.ask("GET", "/engine/prefixes")
    engine.path.with_suffix(".moved").rename(engine.path)
    assert (told.status, told.body["code"]) == (503, "engine_unavailable")


async def test_without_an_engine_there_is_no_tree(tmp_path: Path, redis_server: RedisServer) -> None:
    async with office(tmp_path, redis_server) as it:
        assert await prefixes(it) == {"used": False, "reason": "no_engine"}


@pytest.mark.parametrize("body", [b"", b"[]", b'{"told": [{"salt": 1}], "tenants": 1, "block_size": 4}', b"\xff"])
async def test_what_is_no_outline_is_told_of(tmp_path: Path, redis_server: RedisServer, body: bytes) -> None:
    async def answer(_: aiohttp.web.Request) -> aiohttp.web.Response:
        return aiohttp.web.Response(body=body)

    application = aiohttp.web.Application()
    application.router.add_get("/cache/prefixes", answer)
    runner = aiohttp.web.AppRunner(application)
    await runner.setup()
    await aiohttp.web.UnixSite(runner, str(tmp_path / "e.sock")).start()
    async with office(tmp_path, redis_server, engine_url=f"unix://{tmp_path / 'e.sock'}") as it:
        told = await it.ask("GET", "/engine/prefixes")
    await runner.cleanup()
    assert (told.status, told.body["code"]) == (503, "engine_unreadable")
