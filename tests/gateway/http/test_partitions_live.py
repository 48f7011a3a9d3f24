"""Who shares an entry inside a tenant, how it is named for a purge, and who is told in which words."""

import pytest

from tests.gateway.http.wire import Pair, ask, control, native, said, words
from tests.gateway.stand import Stand

pytestmark = pytest.mark.asyncio(loop_scope="module")


PARTITIONS: list[tuple[Pair, Pair]] = [
    (("x-lamina-cache-namespace", "blue"), ("x-lamina-cache-namespace", "green")),
    (("x-portkey-cache-namespace", "blue"), ("helicone-cache-seed", "green")),
    (("x-bf-cache-key", "blue"), ("x-bf-cache-key", "green")),
    (("x-lamina-versions", "prompt=v1"), ("x-lamina-versions", "prompt=v2")),
    (("x-lamina-versions", "prompt=v1, kb=7"), ("x-lamina-versions", "prompt=v1")),
]


@pytest.mark.parametrize(("one", "two"), PARTITIONS, ids=str)
async def test_partitions_never_share(it: Stand, prompt: str, one: Pair, two: Pair) -> None:
    assert await words(it, said(prompt), one) == "MISS"
    assert await words(it, said(prompt), two) == "MISS"
    assert await words(it, said(prompt)) == "MISS"
    assert [await words(it, said(prompt), header) for header in (one, two)] == ["HIT", "HIT"]


async def test_aliases_of_a_partition_are_one_partition(it: Stand, prompt: str) -> None:
    await ask(it, said(prompt), ("x-lamina-cache-namespace", "blue"))
    for name in ("x-portkey-cache-namespace", "helicone-cache-seed", "x-bf-cache-key"):
        assert await words(it, said(prompt), (name, "blue")) == "HIT"
    assert await words(it, said(prompt, cache={"namespace": "blue"})) == "HIT"
    assert await words(it, said(prompt), ("x-lamina-versions", "b=2,a=1")) == "MISS"
    assert await words(it, said(prompt), ("x-lamina-versions", 'a=1, b="2"')) == "HIT"


@pytest.mark.parametrize("name", ["m", "alias", "a/b", "up/m"])
async def test_a_purge_may_call_the_model_by_any_of_its_names(it: Stand, prompt: str, name: str) -> None:
    assert [await words(it, said(prompt)) for _ in range(2)] == ["MISS", "HIT"]
    await it.purge("model", "other")
    assert await words(it, said(prompt)) == "HIT"
    await it.purge("model", name)
    assert await words(it, said(prompt)) == "MISS"


async def test_no_request_reaches_what_an_operators_bump_left_behind(it: Stand, prompt: str) -> None:
    asked = ("x-lamina-versions", "kb=1")
    await ask(it, said(prompt, model="before"))
    await ask(it, said(prompt, model="before"), asked)
    assert await words(it, said(prompt, model="after"), asked) == "MISS"
    assert await words(it, said(prompt, model="after")) == "MISS"
    assert await words(it, said(prompt, model="after"), asked) == "HIT"


@pytest.mark.parametrize("kind", ["user", "session", "conversation"])
async def test_a_scope_keeps_its_entries_to_itself(it: Stand, prompt: str, kind: str) -> None:
    scope, ann, bob = ("x-lamina-cache-scope", kind), (f"x-lamina-{kind}", "ann"), (f"x-lamina-{kind}", "bob")
    assert await words(it, said(prompt), scope, ann) == "MISS"
    assert await words(it, said(prompt), scope, bob) == "MISS"
    assert await words(it, said(prompt)) == "MISS"
    assert await words(it, said(prompt), scope, ann) == "HIT"
    assert await words(it, said(prompt), ann) == "HIT"  # an id without the scope narrows nothing
    native(await ask(it, said(prompt), scope), 400, code="invalid_cache_control")


async def test_the_user_of_a_scope_may_stand_in_the_body(it: Stand, prompt: str) -> None:
    scope = ("x-lamina-cache-scope", "user")
    assert await words(it, said(prompt, user="ann"), scope) == "MISS"
    assert await words(it, said(prompt, safety_identifier="ann"), scope) == "HIT"
    assert await words(it, said(prompt), scope, ("x-lamina-user", "ann")) == "HIT"
    assert await words(it, said(prompt, user="bob"), scope) == "MISS"
    assert await words(it, said(prompt, user="ann"), scope, ("x-lamina-user", "bob")) == "HIT"


@pytest.mark.parametrize("name", ["x-lamina-cache-key", "cf-aig-cache-key"])
async def test_a_callers_key_stands_for_the_body_within_model_and_partition(
    it: Stand, prompt: str, name: str
) -> None:
    chosen = (name, prompt[-200:])
    await ask(it, said(prompt), chosen)
    assert await words(it, said("something else"), chosen) == "HIT"
    assert await words(it, said("something else") | {"model": "brief"}, chosen) == "MISS"
    assert await words(it, said("something else"), chosen, ("x-lamina-cache-namespace", "other")) == "MISS"


@pytest.mark.parametrize(
    "header",
    [("x-lamina-cache-groups", '"docs", "a b"'), ("surrogate-key", "docs other"), ("cache-tag", "docs,other")],
)
async def test_a_group_is_purged_at_once(it: Stand, prompt: str, header: Pair) -> None:
    await ask(it, said(prompt), header)
    await ask(it, said(prompt + " 2"))
    assert await words(it, said(prompt)) == "HIT"
    await it.purge("tag", "docs")
    purged = await ask(it, said(prompt))
    assert purged["cache-status"] == "lamina; fwd=miss; detail=purged; fwd-status=200; stored"
    assert await words(it, said(prompt + " 2")) == "HIT"


async def test_a_soft_purge_makes_answers_stale(it: Stand, prompt: str) -> None:
    await ask(it, said(prompt), ("x-lamina-cache-groups", "soft"))
    await it.purge("tag", "soft", mode="soft")
    stale = await ask(it, said(prompt), control("max-stale"), control("only-if-cached"))
    assert "detail=exact-soft_purged" in stale["cache-status"]
    await ask(it, said(prompt), control("max-stale, no-store"))
    assert (await ask(it, said(prompt)))["cache-status"].startswith("lamina; fwd=stale; detail=soft_purged;")


async def test_an_id_from_the_headers_is_what_a_purge_takes(it: Stand, prompt: str) -> None:
    made = await ask(it, said(prompt))
    found = await ask(it, said(prompt))
    assert made["x-lamina-cache-id"] == found["x-lamina-cache-id"]
    assert found["x-lamina-cache-source-id"] == made.json["id"]
    await it.purge("key", found["x-lamina-cache-id"])
    assert await words(it, said(prompt)) == "MISS"


VENDORS = [
    (("cf-aig-cache-ttl", "60"), "cf-aig-cache-status", ["MISS", "HIT"]),
    (("cf-aig-skip-cache", "true"), "cf-aig-cache-status", ["BYPASS", "BYPASS"]),
    (("x-portkey-config", '{"cache": {"mode": "simple"}}'), "x-portkey-cache-status", ["MISS", "HIT"]),
    (("x-portkey-cache-force-refresh", "true"), "x-portkey-cache-status", ["REFRESH", "REFRESH"]),
    (("helicone-cache-enabled", "true"), "helicone-cache", ["MISS", "HIT"]),
    (("x-openrouter-cache", "true"), "x-openrouter-cache-status", ["MISS", "HIT"]),
]


@pytest.mark.parametrize(("header", "mirror", "wanted"), VENDORS, ids=str)
async def test_a_vendors_status_is_mirrored_to_those_who_use_its_header(
    it: Stand, prompt: str, header: Pair, mirror: str, wanted: list[str]
) -> None:
    assert [(await ask(it, said(prompt), header))[mirror] for _ in range(2)] == wanted
    assert (await ask(it, said(prompt))).get(mirror) is None
