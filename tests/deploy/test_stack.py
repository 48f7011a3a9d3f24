"""The compose file's own commands, as processes over real Redis and PostgreSQL, from nothing to the last stop."""

import asyncio
import hashlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing

import aiohttp
import pytest

from tests.deploy.compose import ROOT
from tests.deploy.load import Load
from tests.deploy.processes import Running, Stack
from tests.servers.postgres import PostgresServer, running_postgres

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
STREAMS = 6
TOKENS = 24
_DUMP = """
SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY table_name
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def up(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stack, str]]:
    """The whole stack, and the key that its first start printed."""
    with (
        postgres.database() as url,
        closing(Stack(tmp_path_factory.mktemp("stack"), url, {"LAMINA_CACHE_MODE": "semantic"})) as it,
    ):
        key = _first_key(it, postgres, url)
        first = [it.start(name) for name in ("redis", "semantic", "engine")]
        for one in first:
            it.until_healthy(one)
        it.name_gateways(0, 1)
        for one in [it.start("gateway", number) for number in (0, 1)]:
            it.until_healthy(one)
        it.until_healthy(it.start("proxy"))
        yield it, key


def _first_key(it: Stack, postgres: PostgresServer, url: str) -> str:
    said = it.run("init")
    (key,) = set(re.findall(r"lam_[A-Za-z0-9_-]{20,}", said))
    assert said.count("shown only now") == 1
    before = _contents(postgres, url)
    assert "lam_" not in it.run("init")
    assert it.run("init", "--json").strip() == '{"key": null}'
    assert _contents(postgres, url) == before, "a second init changed the database"
    return key


def _contents(postgres: PostgresServer, url: str) -> str:
    database = url.split("?", maxsplit=1)[0].rpartition("/")[2]
    tables = postgres.ask(_DUMP, database).split()
    rows = [postgres.ask(f"SELECT '{name}', t.* FROM {name} t ORDER BY 2", database) for name in tables]  # noqa: S608
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _gateways(it: Stack) -> list[Running]:
    return [one for one in it.running if one.service == "gateway" and one.process.poll() is None]


def test_it_answers_the_readmes_question_from_nothing(up: tuple[Stack, str]) -> None:
    it, key = up
    (ask, *_) = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    ask = ask.replace("http://127.0.0.1:8080", it.url)
    environment = {"PATH": os.environ["PATH"], "LAMINA_KEY": key}
    told = [
        subprocess.run(["bash", "-euc", ask], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert re.search(r"cache-status: lamina; fwd=uri-miss;.* fwd-status=200; stored", told[0], re.IGNORECASE)
    assert re.search(r"cache-status: lamina; hit; ttl=\d+; detail=exact", told[1], re.IGNORECASE)
    assert all("The capital of France is Paris." in answer for answer in told)


async def test_every_part_is_asked_by_the_gateways(up: tuple[Stack, str]) -> None:
    it, key = up
    async with Load(it.url, key).session() as session:
        for one in _gateways(it):
            async with session.get(f"http://{one.address}:8080/readyz") as response:
                ready = await response.json()
            expected = {"redis": "ok", "database": "ok", "engine": "ok", "semantic": "ok"}
            assert ready == {"status": "ready", "parts": expected}
        async with session.get(f"{it.url}/metrics") as response:
            assert response.status == 404, "metrics are not for those outside"


async def test_questions_reach_the_semantic_service_and_answers_its_index(up: tuple[Stack, str]) -> None:
    it, key = up
    load = Load(it.url, key)
    async with load.session() as session:
        for text in ("What is the largest city of France?", "Which city of France is the largest?"):
            async with session.post(f"{it.url}/v1/chat/completions", json=load.body(text)) as response:
                assert response.status == 200
                assert "semantic" in response.headers["cache-status"]
        token = (it.secrets / "semantic_token").read_text().strip()
        async with asyncio.timeout(60):
            while not (figures := await _semantic_figures(it, session, token))["lamina_semantic_rows"]:  # noqa: ASYNC110
                await asyncio.sleep(0.5)
    asked = 'lamina_semantic_requests_total{path="/v1/nominate",status="200"}'
    assert figures[asked] >= 2
    assert not any('status="401"' in name for name in figures)


async def _semantic_figures(it: Stack, session: aiohttp.ClientSession, token: str) -> dict[str, float]:
    """The service's own metrics, asked for as Prometheus asks."""
    headers = {"authorization": f"Bearer {token}"}
    async with session.get(f"http://{it.address('semantic')}:8082/metrics", headers=headers) as response:
        assert response.status == 200
        lines = [line for line in (await response.text()).splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


async def test_sigterm_under_streams_cuts_none(up: tuple[Stack, str]) -> None:
    it, key = up
    load = Load(it.url, key)
    async with load.session() as session, asyncio.TaskGroup() as group:
        for number in range(STREAMS):
            group.create_task(load.streams(session, f"one-{number}", TOKENS))
        group.create_task(load.repeats(session))
        await _until(lambda: load.whole >= STREAMS)
        first, second = _gateways(it)
        first.terminate()
        assert await asyncio.to_thread(first.ended) == 0, first.said
        it.name_gateways(1)
        before = load.whole
        await _until(lambda: load.whole >= before + STREAMS)
        assert load.broken == []
        it.until_healthy(it.start("gateway", 0))
        it.name_gateways(0, 1)
        await _until(lambda: load.open >= STREAMS)
        load.may_be_refused = load.stopping = True
        third = next(one for one in _gateways(it) if one is not second)
        began = time.monotonic()
        for one in (second, third):
            one.terminate()
        statuses = [await asyncio.to_thread(one.ended) for one in (second, third)]
        assert statuses == [0, 0]
        assert time.monotonic() - began < second.grace_s
    assert load.broken == []
    assert load.hits > 0
    assert all("Traceback" not in one.said for one in it.running)


async def _until(condition: object, within_s: float = 240.0) -> None:
    assert callable(condition)
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110  (other processes set no event)
            await asyncio.sleep(0.05)


def test_the_rest_ends_in_order(up: tuple[Stack, str]) -> None:
    it, _ = up
    for name in ("proxy", "semantic", "engine", "redis"):
        one = next(one for one in it.running if one.service == name)
        one.terminate()
        assert one.ended() == 0, one.said
