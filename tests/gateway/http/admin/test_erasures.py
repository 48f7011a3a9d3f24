"""Erasures by API: begun, followed, proven; a user's answers are gone and another's are not."""

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from gateway.db import KeyRepository
from gateway.db.erasing import ErasingRepository
from policies.erasure import is_signed, signature
from policies.purge_scopes import person
from tests.gateway.http.admin.whole import Office
from tests.gateway.stand import KEY, Stand, stand
from tests.servers.redis import RedisServer

ADMIN = "lam_admin_" + "a" * 40
MASTER = "m" * 40
ENCRYPTED = {"encryption": {"master_key": SecretStr(MASTER)}}


async def ask(it: Stand, words: str, user: str) -> bool:
    """Asks; returns whether it was a hit."""
    async with it.client() as client:
        raw = await client.chat.completions.with_raw_response.create(
            model="m", messages=[{"role": "user", "content": words}], user=user
        )
    return "hit" in raw.headers["cache-status"]


async def call(it: Stand, method: str, path: str, key: str = ADMIN, **options: Any) -> tuple[int, Any]:
    headers = {"authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(base_url=it.url, timeout=60) as http:
        reply = await http.request(method, f"/admin/v1/erasures{path}", headers=headers, **options)
    return reply.status_code, reply.json()


async def erased(it: Stand, **body: Any) -> Any:
    """The erasure, once it has ended."""
    status, told = await call(it, "POST", "", json={"tenant": "default", **body})
    assert status == 202, told
    give_up_at = time.monotonic() + 120
    while told["state"] == "running":
        assert time.monotonic() < give_up_at
        await asyncio.sleep(0.1)
        status, told = await call(it, "GET", f"/{told['id']}")
        assert status == 200
    return told


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("changes", [{}, ENCRYPTED], ids=["plain", "encrypted"])
async def test_a_user_is_erased_and_proven(
    tmp_path: Path, redis_server: RedisServer, changes: dict[str, Any]
) -> None:
    async with stand(tmp_path, redis_server, admin_key=SecretStr(ADMIN), **changes) as it:
        await ask(it, "What is mine?", "one")
        await ask(it, "What is yours?", "other")
        told = await erased(it, user="one")
        report = told["report"]
        assert (told["state"], told["signed"], report["complete"]) == ("done", True, True)
        lines = {line["store"]: line for line in report["stores"]}
        assert (lines["redis"]["looked_at"], lines["redis"]["removed"], lines["redis"]["left"]) == (2, 1, 0)
        assert "one" not in str(report).replace("None", "")
        assert report["keys_destroyed"] == []
        assert await ask(it, "What is yours?", "other")
        assert not await ask(it, "What is mine?", "one")
        status, listed = await call(it, "GET", "")
        (item,) = listed["items"]
        assert (status, item["id"], item["state"], item["complete"]) == (200, told["id"], "done", True)
        log = (await Office(it).ask("GET", "/purges")).body["items"]
        assert [(row["kind"], row["value"]) for row in log] == [("user", "#erased")]
        audit = (await Office(it).ask("GET", "/audit")).body
        assert person("user", "one").hex() not in str((told, listed, log, audit)), (
            "a guessed id could be confirmed"
        )


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_worker_that_never_met_the_tenant_erases_the_user_only(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    async with stand(tmp_path, redis_server, admin_key=SecretStr(ADMIN), **ENCRYPTED) as it:
        await ask(it, "What is mine?", "one")
        await ask(it, "What is yours?", "other")
    async with stand(tmp_path, redis_server, admin_key=SecretStr(ADMIN), **ENCRYPTED) as it:
        report = (await erased(it, user="one"))["report"]
        (line,) = (line for line in report["stores"] if line["store"] == "redis")
        assert (line["looked_at"], line["removed"]) == (2, 1)
        assert await ask(it, "What is yours?", "other")


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_tenant_is_erased_key_first(tmp_path: Path, redis_server: RedisServer) -> None:
    async with stand(tmp_path, redis_server, admin_key=SecretStr(ADMIN), **ENCRYPTED) as it:
        other = await it.tenant("other")
        await ask(it, "What is it?", "one")
        tenant_id = await it.tenant_id()
        told = await erased(it)
        assert told["report"]["complete"]
        assert len(told["report"]["keys_destroyed"]) == 1
        assert await KeyRepository(it.database).list(tenant_id) == []
        status, _ = await call(it, "POST", "", json={"tenant": "default"})
        assert status == 404, "its name is gone"
        again = await erased(it, tenant=tenant_id)
        assert again["report"]["complete"], "and its id may be erased again"
        async with it.client(other) as client:
            await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Still here?"}])


async def test_only_administrators_erase(tmp_path: Path, redis_server: RedisServer) -> None:
    async with stand(tmp_path, redis_server, admin_key=SecretStr(ADMIN)) as it:
        assert (await call(it, "POST", "", KEY, json={"tenant": "default"}))[0] == 403
        assert (await call(it, "POST", "", json={"tenant": "nobody"}))[0] == 404
        assert (await call(it, "POST", "", json={"tenant": "default", "who": "x"}))[0] == 400
        assert (await call(it, "GET", "/E0000000000000000"))[0] == 404
        assert await ErasingRepository(it.database).begun(None, None, 10) == []


def test_a_proof_cannot_be_made_up() -> None:
    report = {"purge_seq": 7, "stores": [{"left": 0}]}
    signed = signature(b"k" * 32, report)
    assert is_signed(b"k" * 32, report, signed)
    assert not is_signed(b"k" * 32, {**report, "purge_seq": 8}, signed)
    assert not is_signed(b"z" * 32, report, signed)
    assert not is_signed(b"k" * 32, report, "é")
