"""The ledger and the feed over HTTP: what clients saw, what models were asked, and who may read it."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from gateway.db import TokenRepository
from gateway.settings import ModelSettings
from tests.gateway.http.wire import Reply, ask, control, fetch, said
from tests.gateway.stand import Stand, stand
from tests.servers.redis import RedisServer
from tests.upstream import Script

ADMIN = "lam_admin_" + "a" * 40
USAGE = {"prompt_tokens": 2_000, "completion_tokens": 40, "total_tokens": 2_040}
USAGE_CACHED = USAGE | {"prompt_tokens_details": {"cached_tokens": 1_500, "cache_write_tokens": 100}}


@pytest.fixture
async def it(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Stand]:
    models = (
        ModelSettings(name="m", provider="up", upstream_model="gpt-5.4-mini"),
        ModelSettings(name="plain", provider="up", upstream_model="nobody-knows"),
    )
    async with stand(tmp_path, redis_server, admin_key=SecretStr(ADMIN), models=models) as one:
        yield one


async def read(it: Stand, path: str, key: str | None = ADMIN) -> Reply:
    return await fetch(it, f"/admin/v1/{path}", key=key)


async def got(it: Stand, path: str, key: str | None = ADMIN) -> Any:
    reply = await read(it, path, key)
    assert reply.status == 200, reply.body
    return reply.json


async def traffic(it: Stand) -> None:
    """A miss and two hits, a stream, an error, and a model without a price."""
    it.upstream.enqueue(Script(usage=USAGE_CACHED), Script(usage=USAGE))
    for _ in range(3):
        assert (await ask(it, said("a"))).status == 200
    await ask(it, said("b", stream=True, stream_options={"include_usage": True}))
    it.upstream.enqueue(Script(status=400, body={"error": {"message": "no", "type": "x"}}))
    assert (await ask(it, said("c"), control("no-store"))).status == 400
    assert (await ask(it, said("d", model="plain"))).status == 200
    assert (await ask(it, said("e"), key="lam_nobody")).status == 401


async def test_what_clients_saw_and_what_models_were_asked(it: Stand) -> None:
    await traffic(it)
    told = await got(it, "ledger?by=layer&by=model")
    groups = {(one["group"]["layer"], one["group"]["model"]): one["totals"] for one in told["groups"]}
    assert groups.keys() == {
        ("exact", "gpt-5.4-mini"),
        ("model", "gpt-5.4-mini"),
        ("model", "nobody-knows"),
        ("none", "-"),
    }
    exact, model = groups["exact", "gpt-5.4-mini"], groups["model", "gpt-5.4-mini"]
    assert (exact["requests"], exact["prompt_tokens"], exact["completion_tokens"]) == (2, 4_000, 80)
    assert (model["requests"], model["errors"], model["calls"], model["untold"]) == (3, 1, 2, 0)
    assert (model["call_prompt_tokens"], model["call_completion_tokens"]) == (4_000, 80)
    # 0.75 a million in, 0.075 read, 4.5 out: (400 + 100 + 2000) * .75 + 1500 * .075 + 80 * 4.5, in millionths
    assert model["cost_usd"] == "0.0023475"
    # each hit: 400 * .75 + 1600 * .075 + 40 * 4.5, since what was written then would be read by now
    assert exact["saved_usd"] == "0.0012"
    assert groups["model", "nobody-knows"]["cost_usd"] is None
    assert told["unpriced_models"] == ["nobody-knows"]
    assert groups["none", "-"]["errors"] == 1
    layers = {line["layer"]: line for line in told["layers"]}
    assert (layers["provider_read"]["tokens"], layers["provider_write"]["tokens"]) == (1_500, 100)
    assert told["totals"]["requests"] == 7


async def test_caches_levers_prices_and_break_even(it: Stand) -> None:
    await traffic(it)
    caches = {line["model"]: line for line in (await got(it, "ledger/cache-use"))["items"]}
    use = caches["gpt-5.4-mini"]["use"]
    assert (use["calls"], use["reads"], use["writes"], use["fresh"]) == (2, 1_500, 100, 2_400)
    assert caches["nobody-knows"]["use"]["saved_usd"] is None
    levers = (await got(it, "ledger/levers"))["levers"]
    assert {lever["name"].partition(" ")[0] for lever in levers} == {
        *("exact", "semantic", "coalescing", "provider", "engine", "smaller"),
    }
    assert next(lever for lever in levers if lever["name"] == "exact")["more_usd"] is None
    paid = await got(it, "ledger/break-even?model=claude-sonnet-4-5&tokens=50000&questions=1000")
    assert paid["5m"]["an_hour"]["evenly"]["less"] == pytest.approx(0.899, abs=1e-3)
    missing = await read(it, "ledger/break-even?model=nobody-knows&tokens=5")
    assert (missing.status, missing.json["code"]) == (404, "no_price")
    assert any("gpt-5.4-mini" in row["models"] for row in (await got(it, "ledger/prices"))["prices"])


async def test_the_feed_says_who_answered_and_why_and_no_text(it: Stand) -> None:
    secret = "a question that nobody else may read"
    await ask(it, said(secret))
    await ask(it, said(secret))
    assert it.app.gateway is not None
    feed = it.app.gateway.ledger.feed
    assert feed is not None
    await feed.write()
    told = await got(it, "feed?limit=10")
    newest, first = told["items"][:2]
    assert (newest["layer"], newest["cache"], newest["reason"], newest["status"]) == ("exact", "HIT", "exact", 200)
    assert (first["layer"], first["cache"], first["reason"]) == ("model", "MISS", "absent")
    assert (newest["provider"], newest["model"], newest["route"]) == ("up", "gpt-5.4-mini", "m")
    assert newest["cost_usd"] == "0"
    assert secret not in (await read(it, "feed")).body.decode()
    assert [line["layer"] for line in (await got(it, "feed?layer=model&tenant=default"))["items"]][:1] == ["model"]
    assert (await got(it, f"feed?after={newest['at']}"))["items"] == []
    assert (await got(it, "feed?failed=true"))["items"] == []


async def test_a_bound_token_reads_its_tenants_alone(it: Stand) -> None:
    other_key = await it.tenant("other")
    await ask(it, said("a"))
    await ask(it, said("b"), key=other_key)
    tokens = TokenRepository(it.database)
    other_id = await it.tenant_id("other")
    _, bound = await tokens.create("r", "reader", [other_id], None, "test", time.time())
    told = await got(it, "ledger?by=tenant_id", bound)
    assert [one["group"]["tenant_id"] for one in told["groups"]] == [other_id]
    assert told["totals"]["requests"] == 1
    assert (await read(it, "ledger?tenant=default", bound)).status == 404
    assert (await read(it, "ledger/levers", bound)).status == 403
    assert it.app.gateway is not None
    assert it.app.gateway.ledger.feed is not None
    await it.app.gateway.ledger.feed.write()
    assert {line["tenant_id"] for line in (await got(it, "feed", bound))["items"]} <= {other_id}


@pytest.mark.parametrize("path", ["ledger", "ledger/cache-use", "ledger/levers", "ledger/prices", "feed"])
async def test_nobody_else_reads_it(it: Stand, path: str) -> None:
    assert (await read(it, path, None)).status == 401
    assert (await fetch(it, f"/admin/v1/{path}")).status == 403
