"""Purges by the API: each kind takes what it names and nothing else, at once; previews say what it would take."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from gateway.db import AuditRepository, PurgeRepository
from gateway.http.admin.caller import Caller
from gateway.http.admin.purges import allowed_s
from gateway.settings import ModelSettings
from tests.gateway.http.admin.whole import ADMIN, Office, Told, office
from tests.gateway.http.wire import Pair, ask, said
from tests.gateway.semantic_stand import PARAPHRASE, QUESTION, Meaning, meaning
from tests.gateway.stand import KEY
from tests.gateway.whole_set import until
from tests.servers.redis import RedisServer

MODELS = (
    ModelSettings(name="m", provider="up", aliases=("alias",), versions={"kb": "7"}),
    ModelSettings(name="other", provider="up"),
)
GROUP = ("x-lamina-cache-groups", "prices")
USER, SESSION = ("x-lamina-user", "ann"), ("x-lamina-session", "s1")


@dataclass
class Shop:
    """A gateway with answers in it."""

    office: Office

    async def put(self, text: str, *headers: Pair, model: str = "m", key: str = KEY, **fields: Any) -> str:
        """An answer's id."""
        reply = await ask(self.office.it, said(text, model=model, **fields), *headers, key=key)
        assert reply.status == 200
        return reply["x-lamina-cache-id"]

    async def hits(self, text: str, *headers: Pair, model: str = "m", key: str = KEY, **fields: Any) -> bool:
        """Whether it would be served again."""
        asked = said(text, model=model, **fields)
        reply = await ask(self.office.it, asked, *headers, ("cache-control", "only-if-cached"), key=key)
        return reply.status == 200

    async def purge(self, kind: str, value: str = "", **fields: Any) -> Told:
        """One purge of the default tenant."""
        return await self.office.ask(
            "POST", "/purges", {"tenant": "default", "kind": kind, "value": value, **fields}
        )


@pytest.fixture
async def shop(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Shop]:
    async with office(tmp_path, redis_server, models=MODELS, cache={"stale_s": 60}) as it:
        yield Shop(it)


@pytest.mark.parametrize(
    ("kind", "value", "headers", "fields"),
    [
        ("tag", "prices", (GROUP,), {}),
        ("tag", "a b", (("x-lamina-cache-groups", '"a b", "c"'),), {}),
        ("tag", "x", (("cache-tag", "x,y"),), {}),
        ("tag", "y", (("surrogate-key", "x y"),), {}),
        ("user", "ann", (USER,), {}),
        ("user", "ann", (USER, ("x-lamina-cache-scope", "user")), {}),
        ("user", "ann", (), {"user": "ann"}),
        ("user", "ann", (), {"safety_identifier": "ann"}),
        ("session", "s1", (SESSION,), {}),
        ("version", "prompt=3", (("x-lamina-versions", "prompt=3"),), {}),
        ("version", "prompt=*", (("x-lamina-versions", "prompt=x"),), {}),
        ("version", "prompt<4", (("x-lamina-versions", "prompt=v3.9"),), {}),
    ],
)
async def test_a_purge_takes_what_it_names(
    shop: Shop, kind: str, value: str, headers: tuple[Pair, ...], fields: dict[str, Any]
) -> None:
    named = [*headers]
    id_ = await shop.put("a", *named, **fields)
    await shop.put("b")
    assert await shop.hits("a", *named, **fields), "it is written"
    body = {"tenant": "default", "kind": kind, "value": value}
    preview = await shop.office.ask("POST", "/purges/preview", body)
    assert (preview.status, preview.body["matches"]) == (200, {"exact": 1, "semantic": 0}), preview.body
    assert [one["id"] for one in preview.body["sample"]] == [id_]
    assert await shop.hits("a", *named, **fields), "a preview changes nothing"
    told = await shop.purge(kind, value, reason="new list")
    assert (told.status, told.body["seq"], told.body["actor"], told.body["reason"]) == (
        200,
        1,
        "admin",
        "new list",
    )
    assert told.headers.get("cache-group-invalidation") == (f'"{value}"' if kind == "tag" else None)
    assert not await shop.hits("a", *named, **fields)
    assert await shop.hits("b")


async def test_entry_model_route_tenant_and_age(shop: Shop) -> None:
    other_key = await shop.office.it.tenant("other")
    first = await shop.put("a")
    await shop.put("a", model="other")
    await shop.put("a", key=other_key)
    assert (await shop.purge("entry", first)).body["kind"] == "entry"
    assert not await shop.hits("a")
    assert await shop.hits("a", model="other")
    await shop.put("a")
    assert (await shop.purge("route", "alias")).body["value"] == "m", "an alias stands for its route"
    assert not await shop.hits("a")
    await shop.put("a")
    await shop.purge("model", "up/other")
    assert not await shop.hits("a", model="other")
    assert (await shop.purge("age", "1h")).status == 200
    assert await shop.hits("a"), "it is younger"
    await asyncio.sleep(0.01)
    await shop.purge("age", "0s")
    assert not await shop.hits("a")
    assert await shop.hits("a", key=other_key), "another tenant's are untouched by all of it"
    await shop.put("a")
    told = await shop.purge("tenant", mode="soft")
    assert told.body["mode"] == "soft"
    assert not await shop.hits("a")
    assert await shop.hits("a", ("cache-control", "max-stale=60"))


async def test_a_purge_of_everything_or_of_a_person_moves_the_engines_salt(shop: Shop) -> None:
    upstream = shop.office.it.upstream
    seen: list[str] = []

    async def salt() -> str:
        await shop.put(f"question {len(seen)}", cache_salt="mine")
        seen.append(upstream.calls[-1].body["cache_salt"])
        return seen[-1]

    first = await salt()
    await shop.purge("tag", "prices")
    await shop.purge("tenant", mode="soft")
    assert await salt() == first
    for kind, value in (("tenant", ""), ("user", "ann"), ("session", "s1")):
        await shop.purge(kind, value)
        assert await salt() not in seen[:-1], kind


async def test_what_could_match_nothing_or_belongs_to_another_kind_is_refused(shop: Shop) -> None:
    for body, param in (
        ({"kind": "tag"}, "value"),
        ({"kind": "entry", "value": "abc"}, "value"),
        ({"kind": "age", "value": "soon"}, "value"),
        ({"kind": "planet", "value": "x"}, "kind"),
        ({"kind": "tag", "value": "x", "count": 3}, "text"),
        ({"kind": "meaning", "text": "refunds"}, "similarity"),
        ({"kind": "meaning", "count": 3}, "text"),
        ({"kind": "tag", "value": "x", "colour": "red"}, "colour"),
    ):
        told = await shop.office.ask("POST", "/purges", {"tenant": "default", **body})
        assert (told.status, told.body["param"]) == (400, param), (body, told.body)
    meaning_ = {"tenant": "default", "kind": "meaning", "text": "refunds", "count": 3}
    assert (await shop.office.ask("POST", "/purges", meaning_)).body["code"] == "semantic_unavailable"
    nobody = await shop.office.ask("POST", "/purges", {"tenant": "nobody", "kind": "tenant"})
    assert nobody.status == 404
    assert await PurgeRepository(shop.office.it.database).heads() == {
        await shop.office.it.tenant_id(): (1, 0),
    }


async def test_bulk_is_one_order_or_nothing(shop: Shop) -> None:
    await shop.office.it.tenant("other")
    await shop.put("a", GROUP)
    good = [
        {"tenant": name, "kind": "tag", "value": f"t{number}"}
        for number in range(3)
        for name in ("default", "other")
    ]
    good.append({"tenant": "default", "kind": "tag", "value": "prices"})
    bad = await shop.office.ask(
        "POST", "/purges/bulk", {"purges": [*good, {"tenant": "nobody", "kind": "tenant"}]}
    )
    assert bad.status == 404
    assert await shop.hits("a", GROUP)
    told = await shop.office.ask("POST", "/purges/bulk", {"purges": good})
    assert told.status == 200
    assert [one["seq"] for one in told.body["purges"]] == [1, 1, 2, 2, 3, 3, 4]
    assert told.headers["cache-group-invalidation"] == '"t0", "t1", "t2", "prices"'
    assert not await shop.hits("a", GROUP)
    pages: list[list[dict[str, Any]]] = []
    after: str | None = ""
    while after is not None:
        page = await shop.office.ask("GET", f"/purges?limit=2{after and '&after=' + after}")
        pages.append(page.body["items"])
        after = page.body["next"]
    listed = [(one["tenant"], one["seq"]) for page in pages for one in page]
    assert len(listed) == len(set(listed)) == 7
    for bad in ("x", "1_T1", "1_T1_x", "nan_T1_1", "inf_T1_1", f"1_T1_{'9' * 40}", "_T1_1", "1_T1_-1"):
        assert (await shop.office.ask("GET", f"/purges?after={bad}")).status == 400, bad
    only = await shop.office.ask("GET", "/purges?tenant=other")
    assert [one["seq"] for one in only.body["items"]] == [3, 2, 1]


async def test_a_bound_token_purges_and_sees_its_own_only(shop: Shop) -> None:
    await shop.office.it.tenant("other")
    bound = await shop.office.token("operator", await shop.office.it.tenant_id("other"))
    await shop.purge("tenant")
    told = await shop.office.ask("POST", "/purges", {"tenant": "other", "kind": "tenant"}, bound)
    assert (told.status, told.body["actor"].partition(":")[0]) == (200, "token")
    refused = await shop.office.ask("POST", "/purges", {"tenant": "default", "kind": "tenant"}, bound)
    assert refused.status == 404
    listed = await shop.office.ask("GET", "/purges", key=bound)
    assert [one["tenant"] for one in listed.body["items"]] == [await shop.office.it.tenant_id("other")]
    reader = await shop.office.token("reader")
    assert (
        await shop.office.ask("POST", "/purges", {"tenant": "default", "kind": "tenant"}, reader)
    ).status == 403
    preview = {"tenant": "default", "kind": "tenant"}
    assert (await shop.office.ask("POST", "/purges/preview", preview, reader)).status == 200
    assert (await shop.office.ask("POST", "/purges/preview", {**preview, "show_text": True}, reader)).status == 403


def test_a_reader_has_entries_looked_through_for_less() -> None:
    assert [allowed_s(Caller("token:A", "reader"), asked_s) for asked_s in (0.5, 60.0)] == [0.5, 10.0]
    assert allowed_s(Caller("token:B", "operator"), 60.0) == 60.0


async def test_a_repeated_key_purges_once(shop: Shop) -> None:
    body = {"tenant": "default", "kind": "tenant"}
    once = (("idempotency-key", "k-1"),)
    first = await shop.office.ask("POST", "/purges", body, headers=once)
    again = await shop.office.ask("POST", "/purges", body, headers=once)
    assert first.body == again.body
    assert (await shop.purge("tenant")).body["seq"] == 2


async def purged(shop: Shop) -> bool:
    return (await shop.purge("tenant")).status == 200


async def test_without_redis_the_caller_is_told_and_a_repetition_settles_it(
    shop: Shop, redis_server: RedisServer
) -> None:
    await shop.put("a")
    redis_server.stop()
    try:
        told = await shop.purge("tenant")
        assert (told.status, told.body["code"]) == (503, "purge_unconfirmed")
    finally:
        redis_server.cont()
    await until(lambda: purged(shop))
    assert not await shop.hits("a")


@pytest.mark.slow
async def test_1000_shuffled_purges_at_once_by_the_api(shop: Shop) -> None:
    numbers = list(range(1000))
    random.Random(5).shuffle(numbers)
    gate = asyncio.Semaphore(64)

    async def one(number: int) -> int:
        async with gate:
            while (told := await shop.purge("tag", f"t{number}")).status == 503:  # noqa: ASYNC110  (HTTP)
                await asyncio.sleep(0.2)  # a busy machine: it may have been made, and is made again
        assert told.status == 200, told.body
        return int(told.body["seq"])

    seqs = dict(zip(numbers, await asyncio.gather(*map(one, numbers)), strict=True))
    tenant_id = await shop.office.it.tenant_id()
    log = await PurgeRepository(shop.office.it.database).since(tenant_id, 0)
    assert {(row.value, row.seq) for row in log} >= {(f"t{number}", seq) for number, seq in seqs.items()}
    assert [row.seq for row in log] == list(range(1, len(log) + 1))
    audit = AuditRepository(shop.office.it.database)
    rows = await audit.since(tenant_id=tenant_id)
    while page := await audit.since(rows[-1].audit_id, tenant_id=tenant_id):
        rows += page
    rows = [row for row in rows if row.action == "purge"]
    assert [(int(row.target), json.loads(row.detail)["value"]) for row in rows] == [(r.seq, r.value) for r in log]


@pytest.fixture
async def near(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Meaning]:
    async with meaning(tmp_path, redis_server, admin_key=SecretStr(ADMIN)) as it:
        yield it


async def test_a_purge_by_meaning_takes_rows_their_entries_and_their_copies(near: Meaning) -> None:
    desk = Office(near.it)
    first = await near.taught()
    assert (await near.ask(PARAPHRASE))["cache-status"].endswith("; detail=semantic")
    await near.taught("What is the weather on the moon?")
    await asyncio.sleep(0.05)
    body = {"tenant": "default", "kind": "meaning", "text": "the password", "similarity": 0.4}
    late = {"reason": "all this was made in the last seconds, so the purge takes it too"}
    preview = await desk.ask("POST", "/purges/preview", {**body, "show_text": True})
    assert preview.status == 200, preview.body
    assert [(one["id"], one["question"]) for one in preview.body["sample"]] == [
        (first["x-lamina-cache-id"], QUESTION)
    ]
    assert preview.body["sample"][0]["similarity"] >= 0.4
    assert "question" not in (await desk.ask("POST", "/purges/preview", body)).body["sample"][0]
    other = await desk.ask("POST", "/purges", {**body, "similarity": 0.9, "expect": preview.body["value"]})
    assert (other.status, other.body["code"]) == (409, "preview_is_old")
    told = await desk.ask("POST", "/purges", {**body, **late, "expect": preview.body["value"]})
    assert (told.status, told.body["members"], told.body["value"]) == (200, 1, preview.body["value"])
    assert "password" not in json.dumps(told.body), "the text is not kept"
    assert len(await near.rows()) == 1, "its rows leave the index"
    for words in (QUESTION, PARAPHRASE):
        assert "hit" not in (await near.ask(words))["cache-status"]


async def test_a_count_takes_the_nearest_so_many(near: Meaning) -> None:
    desk = Office(near.it)
    for words in (QUESTION, "What about the password of my bank?", "Where is the moon?"):
        await near.taught(words)
    body = {"tenant": "default", "kind": "meaning", "text": QUESTION, "count": 2, "similarity": 0.1}
    preview = await desk.ask("POST", "/purges/preview", {**body, "show_text": True})
    assert [one["question"] for one in preview.body["sample"]] == [QUESTION, "What about the password of my bank?"]
    assert (await desk.ask("POST", "/purges", {**body, "count": 1})).body["members"] == 1
