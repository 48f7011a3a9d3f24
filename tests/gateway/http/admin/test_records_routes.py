"""Tenants, keys, limits, modes, tokens, policies, figures, audit and feedback, over a whole gateway."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway.settings import ModelSettings
from policies.guardrails import GUARDRAILS
from tests.gateway.http.admin.whole import ADMIN, Office, office
from tests.gateway.http.wire import chat_request, line, said
from tests.gateway.stand import KEY
from tests.servers.redis import RedisServer

MODELS = (ModelSettings(name="m", provider="up", aliases=("alias",)), ModelSettings(name="n/1", provider="up"))


@pytest_asyncio.fixture
async def it(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Office]:
    async with office(tmp_path, redis_server, models=MODELS) as one:
        yield one


async def chat(it: Office, key: str = KEY, words: str = "hello", model: str = "m") -> Any:
    """One request's reply."""
    async with line(it.it) as opened:
        await opened.send(chat_request(said(words, model=model), key=key))
        return await opened.reply()


async def audited(it: Office, **query: str) -> list[dict[str, Any]]:
    """Rows of the audit, the newest first."""
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    return (await it.ask("GET", f"/audit?{asked}")).body["items"]


async def test_a_tenant_from_making_to_shutting_out(it: Office) -> None:
    made = await it.ask("POST", "/tenants", {"name": "acme"})
    assert made.status == 201
    assert (await it.ask("POST", "/tenants", {"name": "acme"})).status == 409
    assert (await it.ask("POST", "/tenants", {"name": "No Name"})).status == 400
    key = await it.ask("POST", "/tenants/acme/keys", {"label": "app"})
    assert (key.status, key.body["announced"]) == (201, True)
    assert (await chat(it, key.body["key"])).status == 200
    listed = (await it.ask("GET", "/tenants/acme/keys")).body["items"]
    assert [one["id"] for one in listed] == [key.body["id"]]
    assert key.body["key"] not in str(listed)
    gone = await it.ask("DELETE", f"/tenants/acme/keys/{key.body['id']}")
    assert gone.body["revoked"]
    assert (await chat(it, key.body["key"])).status == 401
    second = (await it.ask("POST", "/tenants/acme/keys", {})).body["key"]
    assert (await chat(it, second)).status == 200
    shut = await it.ask("POST", f"/tenants/{made.body['id']}/disable")
    assert shut.body["disabled_at"] is not None
    assert (await chat(it, second)).status == 401
    assert (await it.ask("POST", "/tenants/acme/keys", {})).status == 409
    rows = await audited(it, tenant="acme")
    assert [row["action"] for row in rows] == [
        "tenant.disable",
        "key.create",
        "key.revoke",
        "key.create",
        "tenant.create",
    ]
    assert {row["actor"] for row in rows} == {"admin"}


async def test_a_key_of_another_tenant_is_not_revoked_by_way_of_ones_own(it: Office) -> None:
    await it.ask("POST", "/tenants", {"name": "acme"})
    foreign = (await it.ask("GET", "/tenants/default/keys")).body["items"][0]["id"]
    bound = await it.token("admin", "acme")
    for tenant in ("acme", "default"):
        assert (await it.ask("DELETE", f"/tenants/{tenant}/keys/{foreign}", key=bound)).status == 404
    assert (await chat(it)).status == 200


async def test_lists_come_in_pages(it: Office) -> None:
    names = ["default", *(f"t{number}" for number in range(7))]
    for name in names[1:]:
        await it.ask("POST", "/tenants", {"name": name})
    seen, after = [], ""
    while True:
        page = (await it.ask("GET", f"/tenants?limit=3{after}")).body
        seen += [one["name"] for one in page["items"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert seen == names
    ids: list[int] = []
    after = ""
    while True:
        page = (await it.ask("GET", f"/audit?limit=2&newest_first=false{after}")).body
        ids += [one["id"] for one in page["items"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert ids == sorted(set(ids))
    assert len(ids) == 9
    assert (await it.ask("GET", "/audit?after=x")).status == 400


async def test_limits_hold_from_the_next_request_on(it: Office) -> None:
    assert (await chat(it)).status == 200
    told = await it.ask("PUT", "/tenants/default/limits", {"requests_per_minute": 0})
    assert (told.status, told.body["announced"]) == (200, True)
    assert (await chat(it)).status == 429
    assert (await it.ask("GET", "/tenants/default/limits")).body["requests_per_minute"] == 0
    await it.ask("PUT", "/tenants/default/limits", {})
    assert (await chat(it)).status == 200
    for bad in ({"requests_per_minute": -1}, {"concurrent": 1.5}, {"tokens_per_day": "9"}, {"x": 1}):
        assert (await it.ask("PUT", "/tenants/default/limits", bad)).status == 400


async def test_a_mode_is_obeyed_by_the_very_next_request(it: Office) -> None:
    other = await it.it.tenant("other")
    assert (await chat(it))["cache-status"].startswith("lamina; fwd")
    assert (await chat(it))["cache-status"].startswith("lamina; hit")
    for mode, said_ in (("off", "off"), ("observe", "observe"), ("exact", "hit")):
        assert (await it.ask("PUT", "/tenants/default/modes", {"modes": {"m": mode}})).body["announced"]
        assert said_ in (await chat(it))["cache-status"], mode
    await it.ask("PUT", "/modes", {"modes": {"m": "off"}})
    assert "hit" in (await chat(it))["cache-status"]
    assert "off" in (await chat(it, other))["cache-status"]
    await it.ask("PUT", "/tenants/default/modes", {"modes": {}})
    assert "off" in (await chat(it))["cache-status"]
    routes = {one["name"]: one for one in (await it.ask("GET", "/tenants/default/routes")).body["items"]}
    assert (routes["m"]["mode"], routes["m"]["settings_mode"]) == ("off", "exact")
    assert (routes["n/1"]["mode"], routes["m"]["aliases"]) == ("exact", ["alias"])
    explained = await it.ask("POST", "/explain", {"tenant": "default", "request": said("hello")})
    assert (explained.body["verdict"], explained.body["rule"]) == ("bypass", "off")
    assert [row["action"] for row in await audited(it, action="modes.")] == ["modes.set"] * 5


@pytest.mark.slow
async def test_without_redis_a_change_for_all_is_stored_and_waits_for_one_tenant_only(
    it: Office, redis_server: RedisServer
) -> None:
    for number in range(6):
        await it.it.tenant(f"t{number}")
    version = {"name": "kb", "version": "1", "kind": "knowledge_base"}
    redis_server.stop()
    try:
        for method, path, body in (("PUT", "/modes", {"modes": {"m": "off"}}), ("POST", "/versions", version)):
            begun = time.monotonic()
            told = await it.ask(method, path, body)
            assert (told.status, told.body.get("announced")) == (200, False), told.body
            assert time.monotonic() - begun < 6, path
    finally:
        redis_server.cont()
    assert (await it.ask("GET", "/modes")).body["modes"] == {"m": "off"}


async def test_a_mode_that_cannot_be_obeyed_is_refused(it: Office) -> None:
    assert (await it.ask("PUT", "/modes", {"modes": {"unknown": "off"}})).status == 404
    assert (await it.ask("PUT", "/modes", {"modes": {"m": "on"}})).status == 400
    told = await it.ask("PUT", "/tenants/default/modes", {"modes": {"m": "semantic"}})
    assert (told.status, told.body["code"]) == (409, "no_semantic_service")


async def test_a_token_does_what_it_was_made_for(it: Office) -> None:
    await it.ask("POST", "/tenants", {"name": "acme"})
    made = await it.ask("POST", "/tokens", {"role": "admin", "tenants": ["acme"], "ttl_s": 60, "label": "hook"})
    assert made.status == 201
    token, name = made.body["token"], f"token:{made.body['id']}"
    assert [one["name"] for one in (await it.ask("GET", "/tenants", key=token)).body["items"]] == ["acme"]
    assert (await it.ask("POST", "/tenants/acme/keys", {}, key=token)).status == 201
    assert (await it.ask("POST", "/tenants", {"name": "more"}, key=token)).status == 403
    assert (await it.ask("POST", "/tokens", {"role": "admin"}, key=token)).status == 403
    seen = (await it.ask("GET", "/audit", key=token)).body["items"]
    assert [(row["action"], row["actor"]) for row in seen] == [("key.create", name), ("tenant.create", "admin")]
    listed = (await it.ask("GET", "/tokens")).body["items"]
    assert token not in str(listed)
    assert (await it.ask("DELETE", f"/tokens/{made.body['id']}")).body["revoked_at"] is not None
    assert (await it.ask("GET", "/tenants", key=token)).status == 401
    for bad in ({}, {"role": "root"}, {"role": "reader", "tenants": []}, {"role": "reader", "ttl_s": 0}):
        assert (await it.ask("POST", "/tokens", bad)).status == 400


async def test_a_key_is_made_once_however_often_it_is_asked_for(it: Office) -> None:
    once = (("idempotency-key", "rotation-1"),)
    asked = [it.ask("POST", "/tenants/default/keys", {"label": "r"}, ADMIN, once) for _ in range(8)]
    told = await asyncio.gather(*asked)
    told.append(await it.ask("POST", "/tenants/default/keys", {"label": "r"}, ADMIN, once))
    assert {one.status for one in told} <= {201, 409}
    assert len({one.body["key"] for one in told if one.status == 201}) == 1
    assert told[-1].headers["idempotency-replayed"] == "true"
    keys = (await it.ask("GET", "/tenants/default/keys")).body["items"]
    assert [one["label"] for one in keys].count("r") == 1
    assert len(await audited(it, action="key.create")) == 2


async def test_policies_figures_and_parts(it: Office) -> None:
    await chat(it)
    await chat(it)
    told = (await it.ask("GET", "/policies")).body
    assert [one["name"] for one in told["items"]] == list(GUARDRAILS)
    assert all(one["finds"].endswith(".") for one in told["items"])
    figures = (await it.ask("GET", "/stats")).body
    assert figures["requests"] == 2
    assert [(one["layer"], one["hits"]) for one in figures["layers"]] == [("exact", 1)]
    parts = (await it.ask("GET", "/readiness")).body
    assert parts["status"] == "ready"
    assert set(parts["parts"]) == {"redis", "database"}


async def test_feedback_on_behalf_takes_an_answer_out_of_service(it: Office) -> None:
    await chat(it)
    hit = await chat(it)
    said_ = {"tenant": "default", "id": hit["x-lamina-cache-id"], "verdict": "wrong"}
    token = await it.token("operator")
    told = await it.ask("POST", "/feedback", said_, token)
    assert (told.status, told.body["purged"]) == (200, [hit["x-lamina-cache-id"]])
    assert (await chat(it))["cache-status"].startswith("lamina; fwd")
    assert [row["action"] for row in await audited(it, tenant="default")][:2] == ["feedback", "purge"]
    assert all(row["actor"].startswith("token:") for row in (await audited(it, tenant="default"))[:2])
    assert (await it.ask("POST", "/feedback", said_ | {"id": "0" * 64}, token)).status == 404
    assert (await it.ask("GET", "/feedback")).body == {"items": [], "next": None}


async def test_a_change_that_redis_cannot_confirm_is_stored_and_says_so(
    it: Office, redis_server: RedisServer
) -> None:
    assert (await chat(it)).status == 200
    redis_server.kill()
    told = await it.ask("PUT", "/tenants/default/limits", {"requests_per_minute": 0})
    assert (told.status, told.body["announced"]) == (200, False)
    assert (await chat(it)).status == 429, "without Redis each request reads the database"
