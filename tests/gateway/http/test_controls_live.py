"""Each control does over the wire what docs/cache-control.md says of it."""

import asyncio
import math
import re
from typing import Any

import pytest

from gateway.settings import CacheSettings
from tests.gateway.http.wire import Pair, Reply, ask, control, native, said, words
from tests.gateway.stand import Stand, stand
from tests.servers.redis import RedisServer
from tests.upstream import Script

pytestmark = pytest.mark.asyncio(loop_scope="module")

DAY_S = 24 * 3600


def life_s(reply: Reply) -> float:
    """The `ttl` that a hit tells."""
    found = re.search(r"ttl=(-?\d+)", reply["cache-status"])
    return int(found[1]) if found else math.nan


SKIP_READ: list[Pair] = [
    control("no-cache"),
    control("max-age=0"),
    control('No-Cache="x"'),
    ("x-portkey-cache-force-refresh", "true"),
    ("x-openrouter-cache-clear", "true"),
    ("op-cache", "writeOnly"),
]
SKIP_WRITE: list[Pair] = [
    control("no-store"),
    ("x-bf-cache-no-store", "true"),
    ("op-cache", "readOnly"),
    ("x-lamina-cache-ttl", "0"),
]
SKIP_BOTH: list[Pair] = [
    control("no-cache, no-store"),
    control("no-store,no-cache"),
    ("cf-aig-skip-cache", "true"),
    ("cf-skip-cache", "true"),
    ("x-higress-skip-ai-cache", "on"),
    ("x-openrouter-cache", "false"),
    ("helicone-cache-enabled", "false"),
]
BODY_SKIP_READ = [{"cache": {"no-cache": True}}, {"tensorzero::cache_options": {"enabled": "write_only"}}]
BODY_SKIP_WRITE = [{"cache": {"no-store": True}}, {"tensorzero::cache_options": {"enabled": "read_only"}}]
BODY_SKIP_BOTH = [
    {"cache": {"no-cache": True, "no-store": True}},
    {"tensorzero::cache_options": {"enabled": "off"}},
]
ASKED = [
    *(("refresh", header, {}) for header in SKIP_READ),
    *(("refresh", None, fields) for fields in BODY_SKIP_READ),
    *(("no write", header, {}) for header in SKIP_WRITE),
    *(("no write", None, fields) for fields in BODY_SKIP_WRITE),
    *(("bypass", header, {}) for header in SKIP_BOTH),
    *(("bypass", None, fields) for fields in BODY_SKIP_BOTH),
]


@pytest.mark.parametrize(("wish", "header", "fields"), ASKED, ids=lambda value: str(value)[:60])
async def test_reading_and_writing_are_switched(
    it: Stand, prompt: str, wish: str, header: Pair | None, fields: dict[str, Any]
) -> None:
    headers = () if header is None else (header,)
    it.upstream.enqueue(Script(pieces=("one",)), Script(pieces=("two",)), Script(pieces=("three",)))
    first = await ask(it, said(prompt, **fields), *headers)
    assert first.text == "one"
    after_first = await ask(it, said(prompt))
    assert after_first.text == ("one" if wish == "refresh" else "two")
    second = await ask(it, said(prompt, **fields), *headers)
    if wish == "refresh":
        assert (first["x-lamina-cache"], second["x-lamina-cache"]) == ("REFRESH", "REFRESH")
        assert second["cache-status"] == "lamina; fwd=request; fwd-status=200; stored"
        assert second.text == "two"
        assert (await ask(it, said(prompt))).text == "two"
    elif wish == "no write":
        assert first["x-lamina-cache-reason"] == "no_store"
        assert (second["x-lamina-cache"], second.text) == ("HIT", "two")
    else:
        assert second["cache-status"] == "lamina; fwd=bypass; detail=request; fwd-status=200"
        assert second["x-lamina-cache"] == "BYPASS"
        assert second.text == "three"
        assert (await ask(it, said(prompt))).text == "two"
    assert all(fields.keys().isdisjoint(call.body) for call in it.upstream.calls)


@pytest.mark.parametrize(
    "header",
    [
        ("x-bf-cache-no-store", "false"),
        ("cf-aig-skip-cache", "false"),
        ("x-portkey-cache-force-refresh", "off"),
        ("x-openrouter-cache", "true"),
        ("op-cache", "readWrite"),
        control("max-age=60"),
        control("private, x=1"),
        control("max-age=soon"),
        control("min-fresh=10"),
    ],
)
async def test_a_control_that_allows_changes_nothing(it: Stand, prompt: str, header: Pair) -> None:
    assert [await words(it, said(prompt), header) for _ in range(2)] == ["MISS", "HIT"]


@pytest.mark.slow
async def test_an_age_or_a_remaining_life_may_be_demanded(it: Stand, prompt: str) -> None:
    await ask(it, said(prompt), ("x-lamina-cache-ttl", "100"))
    too_short = await ask(it, said(prompt), control("min-fresh=200, only-if-cached"))
    assert too_short.status == 504
    await asyncio.sleep(1.1)
    assert await words(it, said(prompt), control("max-age=30")) == "HIT"
    old = await ask(it, said(prompt), control("max-age=1"))
    assert old["cache-status"].startswith("lamina; fwd=stale; detail=max_age;")
    assert int((await ask(it, said(prompt)))["age"]) == 0  # the refreshed entry


@pytest.mark.slow
async def test_an_age_may_be_demanded_in_the_body(it: Stand, prompt: str) -> None:
    wishes = (
        {"cache": {"s-maxage": 1}},
        {"cache": {"s-max-age": 1}},
        {"tensorzero::cache_options": {"max_age_s": 1}},
    )
    bodies = [said(f"{prompt} {wish}") | wish for wish in wishes]
    assert [await words(it, body) for body in bodies] == ["MISS"] * 3
    assert [await words(it, body) for body in bodies] == ["HIT"] * 3
    await asyncio.sleep(1.1)
    assert [await words(it, body) for body in bodies] == ["MISS"] * 3


@pytest.mark.slow
async def test_stale_answers_are_for_those_who_accept_them(it: Stand, prompt: str) -> None:
    brief = said(prompt) | {"model": "brief"}
    it.upstream.enqueue(Script(pieces=("old",)), Script(pieces=("new",)), Script(pieces=("newer",)))
    before = it.upstream.count
    await ask(it, brief)
    await asyncio.sleep(1.1)
    assert (await ask(it, brief, control("max-stale=0, only-if-cached"))).status == 504
    last = await ask(it, brief, control("max-stale=30, only-if-cached"))
    assert last.text == "old"
    await asyncio.sleep(0.05)
    assert len(it.upstream.calls) == 1, "only-if-cached must not call a model, not even behind"
    stale = await ask(it, brief, control("max-stale"))
    assert (stale["x-lamina-cache"], stale.text) == ("STALE", "old")
    assert stale["cache-status"].startswith("lamina; hit; ttl=")
    assert "detail=exact-max_stale" in stale["cache-status"]
    assert life_s(stale) <= 0
    assert int(stale["age"]) >= 1
    await it.upstream.until(calls=before + 2)
    await asyncio.sleep(0.05)  # for the answer and its way into the store
    fresh = await ask(it, brief)
    assert (fresh["x-lamina-cache"], fresh.text) == ("HIT", "new")


@pytest.mark.slow
async def test_an_expired_answer_is_a_miss(it: Stand, prompt: str) -> None:
    brief = said(prompt) | {"model": "brief"}
    await ask(it, brief)
    await asyncio.sleep(1.1)
    expired = await ask(it, brief)
    assert expired["cache-status"] == "lamina; fwd=stale; detail=expired; fwd-status=200; stored"


async def test_only_if_cached_serves_what_is_there(it: Stand, prompt: str) -> None:
    native(await ask(it, said(prompt), control("only-if-cached")), 504, code="only_if_cached")
    await ask(it, said(prompt))
    assert await words(it, said(prompt), control("only-if-cached")) == "HIT"
    assert (await ask(it, said(prompt), control("only-if-cached"), ("x-lamina-cache-mode", "off"))).status == 504
    assert len(it.upstream.calls) == 1


@pytest.mark.parametrize(
    ("asked", "wanted_s"),
    [
        (("x-lamina-cache-ttl", "90"), 90),
        (("x-lamina-cache-ttl", "5m"), 300),
        (("x-lamina-cache-ttl", "2H"), 7200),
        (("x-lamina-cache-ttl", "400d"), 2 * DAY_S),
        (("cf-aig-cache-ttl", "90"), 90),
        (("cf-cache-ttl", "90"), 90),
        (("x-openrouter-cache-ttl", "90"), 90),
        (("x-bf-cache-ttl", "90s"), 90),
        (None, DAY_S),
    ],
    ids=str,
)
async def test_a_life_is_asked_for_and_clamped(
    it: Stand, prompt: str, asked: Pair | None, wanted_s: float
) -> None:
    await ask(it, said(prompt), *(() if asked is None else (asked,)))
    assert wanted_s - 3 <= life_s(await ask(it, said(prompt))) <= wanted_s


async def test_a_life_in_the_body_and_helicones_max_age(it: Stand, prompt: str) -> None:
    await ask(it, said(prompt, cache={"ttl": 90}))
    assert life_s(await ask(it, said(prompt))) in (88, 89, 90)
    other = said(prompt + " 2")
    enabled = ("helicone-cache-enabled", "true")
    await ask(it, other, enabled, control("max-age=90"))
    found = await ask(it, other, enabled)
    assert life_s(found) in (88, 89, 90)
    assert found["helicone-cache"] == "HIT"


@pytest.mark.parametrize(
    "header", [("x-lamina-cache-mode", "off"), ("x-lamina-cache-mode", "OFF"), ("x-bf-cache-type", "off")]
)
async def test_mode_off_asks_the_model_and_stores_nothing(it: Stand, prompt: str, header: Pair) -> None:
    off = await ask(it, said(prompt), header)
    assert (off["x-lamina-cache"], off["cache-status"]) == (
        "OFF",
        "lamina; fwd=bypass; detail=off; fwd-status=200",
    )
    assert off.get("x-lamina-cache-id") is None
    assert await words(it, said(prompt)) == "MISS"
    assert await words(it, said(prompt), header) == "OFF"


@pytest.mark.parametrize("mode", ["exact", "auto", "semantic", "direct"])
async def test_other_modes_leave_the_routes_own(it: Stand, prompt: str, mode: str) -> None:
    header = ("x-lamina-cache-mode", mode)
    assert [await words(it, said(prompt), header) for _ in range(2)] == ["MISS", "HIT"]
    assert await words(it, said(prompt) | {"model": "plain"}, header) == "OFF"


async def test_a_route_that_observes_counts_and_serves_nothing(it: Stand, prompt: str) -> None:
    watched = said(prompt) | {"model": "watched"}
    first, second = await ask(it, watched), await ask(it, watched)
    assert first["cache-status"] == "lamina; fwd=uri-miss; fwd-status=200; stored"
    assert second["cache-status"] == "lamina; fwd=miss; detail=observe; fwd-status=200; stored"
    assert len(it.upstream.calls) == 2


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"web_search_options": {}}, "live_data"),
        ({"kv_transfer_params": {"x": 1}}, "transfer"),
        ({"diagnostics": {"previous_message_id": None}}, "diagnostics"),
        ({"max_tokens": 0}, "prewarm"),
    ],
)
async def test_what_cannot_be_cached_goes_round(
    it: Stand, prompt: str, fields: dict[str, Any], reason: str
) -> None:
    for _ in range(2):
        reply = await ask(it, said(prompt, **fields))
        assert reply["cache-status"] == f"lamina; fwd=bypass; detail={reason}; fwd-status=200"
        assert (reply["x-lamina-cache"], reply["x-lamina-cache-reason"]) == ("BYPASS", "bypass")


BAD = [
    ("x-lamina-cache-ttl", "soon"),
    ("x-lamina-cache-ttl", "-1"),
    ("x-lamina-cache-ttl", "1e9"),
    ("x-lamina-cache-mode", "fast"),
    ("x-lamina-cache-namespace", ""),
    ("x-lamina-cache-namespace", "x" * 257),
    ("x-lamina-cache-scope", "planet"),
    ("x-lamina-versions", "v3"),
    ("x-lamina-versions", "a=1,a=2"),
    ("x-lamina-cache-groups", ",".join(f"g{i}" for i in range(33))),
    ("x-lamina-cache-key", "a\tb"),
]


@pytest.mark.parametrize("header", BAD, ids=lambda value: str(value)[:40])
async def test_a_control_of_ours_that_is_not_understood_is_400(it: Stand, prompt: str, header: Pair) -> None:
    native(await ask(it, said(prompt), header), 400, code="invalid_cache_control")
    assert it.upstream.calls == []


async def test_no_control_reaches_the_model(it: Stand, prompt: str) -> None:
    headers = [*SKIP_READ, ("x-lamina-cache-namespace", "n"), ("x-lamina-user", "u"), ("surrogate-key", "a")]
    await ask(it, said(prompt, cache={"ttl": 5}), *headers)
    (call,) = it.upstream.calls
    assert {name for name, _ in headers}.isdisjoint(call.headers)
    assert "cache" not in call.body


async def test_an_operator_may_refuse_to_be_hurried(
    tmp_path_factory: pytest.TempPathFactory, gate_redis: RedisServer, prompt: str
) -> None:
    home = tmp_path_factory.mktemp("calm")
    async with stand(home, gate_redis, cache=CacheSettings(honour_no_cache=False)) as calm:
        await ask(calm, said(prompt))
        for header in SKIP_READ:
            assert await words(calm, said(prompt), header) == "HIT"
        assert await words(calm, said(prompt), control("no-store, no-cache")) == "HIT"
        assert await words(calm, said(prompt + " 2"), control("no-store, no-cache")) == "MISS"
        assert await words(calm, said(prompt + " 2")) == "MISS"


async def test_an_operator_may_honour_nothing_but_partitions(
    tmp_path_factory: pytest.TempPathFactory, gate_redis: RedisServer, prompt: str
) -> None:
    home = tmp_path_factory.mktemp("deaf")
    async with stand(home, gate_redis, cache=CacheSettings(honoured_controls=False)) as deaf:
        for header in (*SKIP_WRITE, *SKIP_BOTH, *SKIP_READ, ("x-lamina-cache-mode", "off")):
            assert await words(deaf, said(f"{prompt} {header}"), header) == "MISS"
            assert await words(deaf, said(f"{prompt} {header}"), header) == "HIT"
        assert (await ask(deaf, said(prompt), control("only-if-cached"))).status == 200
        assert await words(deaf, said(prompt), ("x-lamina-cache-namespace", "n")) == "MISS"
        scoped = ("x-lamina-cache-scope", "user"), ("x-lamina-user", "ann")
        assert await words(deaf, said(prompt), *scoped) == "MISS"
        assert life_s(await ask(deaf, said(prompt), ("x-lamina-cache-ttl", "5"))) > 5
