"""The prefix doctor over HTTP: what breaks the prefixes of prompts that reached a model, and of whose."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway.settings import LedgerSettings, ModelSettings
from tests.gateway.http.wire import ask, fetch
from tests.gateway.stand import Stand, stand
from tests.servers.redis import RedisServer
from tests.upstream import Script

ADMIN = "lam_admin_" + "a" * 40
RULES = "You are the help desk of a railway. Answer in two sentences and name the page of the handbook. " * 12
MODELS = (ModelSettings(name="m", provider="up", upstream_model="gpt-4o-mini"),)


@pytest.fixture
async def it(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Stand]:
    async with stand(tmp_path, redis_server, admin_key=SecretStr(ADMIN), models=MODELS) as one:
        yield one


async def test_it_names_the_field_and_quotes_nothing(it: Stand) -> None:
    usage = {"prompt_tokens": 400, "completion_tokens": 2, "total_tokens": 402}
    for minute in range(4):
        it.upstream.enqueue(Script(usage=usage))
        system = {"role": "system", "content": f"canary 10:0{minute}. {RULES}"}
        body = {"model": "m", "messages": [system, {"role": "user", "content": "When?"}]}
        assert (await ask(it, body)).status == 200
        assert (await ask(it, body)).status == 200, "a hit, which no model saw"
    for _ in range(100):
        reply = await fetch(it, "/admin/v1/doctor", key=ADMIN)
        if reply.json["requests"] == 4:
            break
        await asyncio.sleep(0.1)
    told = reply.json
    assert (told["on"], told["requests"], told["compared"], told["prompt_tokens"]) == (True, 4, 3, 1600)
    (finding,) = told["findings"]
    assert (finding["kind"], finding["place"], finding["requests"]) == ("time", "messages[0].content", 3)
    assert float(finding["lost_usd"]) > 0
    assert finding["remedy"]
    assert b"canary" not in reply.body


async def test_it_can_be_switched_off(tmp_path: Path, redis_server: RedisServer) -> None:
    off = LedgerSettings(doctor=False)
    async with stand(tmp_path, redis_server, admin_key=SecretStr(ADMIN), models=MODELS, ledger=off) as it:
        assert (await fetch(it, "/admin/v1/doctor", key=ADMIN)).json["on"] is False
