"""Nothing crosses between tenants, whatever a request claims; and a key or purge that changes, changes at once."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.db import KeyRepository, TenantRepository
from gateway.invalidation.announce import RedisAnnouncer
from gateway.settings import Settings
from tests.gateway.http.wire import Pair, Reply, ask, fetch, measured, said
from tests.gateway.stand import KEY, Stand, running, settings_for, stand
from tests.servers.redis import RedisServer
from tests.upstream import Script, Upstream

A_TEXT, B_TEXT = "the secret of A", "the answer for B"


@dataclass(frozen=True, slots=True)
class TwoTenants:
    """Two tenants on one gateway."""

    it: Stand
    a: str
    b: str


@pytest.fixture
async def two(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[TwoTenants]:
    """Two tenants; the first is the default one."""
    async with stand(tmp_path, redis_server) as it:
        yield TwoTenants(it, KEY, await it.tenant("bee"))


def telling(reply: Reply) -> set[str]:
    """Header values that could tell of somebody."""
    names = ("x-lamina-cache-id", "x-lamina-cache-source-id", "x-request-id", "cache-status", "age")
    return {f"{name}={value}" for name, value in reply.pairs if name in names}


FORGED: list[tuple[Pair, ...]] = [
    (),
    (("x-tenant", "default"), ("x-tenant-id", "default"), ("x-lamina-tenant", "default")),
    (("x-lamina-cache-namespace", "shared"),),
    (("x-lamina-cache-key", "shared"),),
    (("cf-aig-cache-key", "shared too"), ("helicone-cache-seed", "shared")),
    (("x-lamina-cache-scope", "user"), ("x-lamina-user", "ann")),
    (("x-lamina-cache-scope", "session"), ("x-lamina-session", "s1")),
    (("openai-organization", "org-a"), ("openai-project", "p")),
    (("x-lamina-versions", "tenant=default"),),
    (("x-lamina-cache-scope", "tenant"),),
    (("x-forwarded-user", "default"), ("cookie", "tenant=default")),
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_no_claim_makes_two_tenants_share_an_answer(two: TwoTenants, prompt: str, *, stream: bool) -> None:
    for number, headers in enumerate(FORGED):
        body = said(
            f"{prompt} {number}", stream=stream, user="ann", safety_identifier="ann", cache={"namespace": "x"}
        )
        body |= {"metadata": {"tenant": "default"}, "prompt_cache_key": "default", "cache_salt": "default"}
        two.it.upstream.enqueue(Script(pieces=(A_TEXT,)), Script(pieces=(B_TEXT,)))
        made = await ask(two.it, body, *headers, key=two.a)
        other = await ask(two.it, body, *headers, key=two.b)
        assert (made["x-lamina-cache"], other["x-lamina-cache"]) == ("MISS", "MISS")
        assert A_TEXT.encode() not in other.body
        assert made["x-lamina-cache-id"] != other["x-lamina-cache-id"]
        for key, text in ((two.a, A_TEXT), (two.b, B_TEXT)):
            found = await ask(two.it, body, *headers, key=key)
            assert found["x-lamina-cache"] == "HIT"
            assert text.encode() in found.body
            assert (A_TEXT if text == B_TEXT else B_TEXT).encode() not in found.body
        assert telling(made).isdisjoint(telling(other) - {"cache-status=" + other["cache-status"]})
    assert len(two.it.upstream.calls) == 2 * len(FORGED)


async def test_a_model_list_tells_both_the_same_and_nothing_of_each_other(two: TwoTenants) -> None:
    lists = [(await fetch(two.it, "/v1/models", key=key)) for key in (two.a, two.b)]
    assert lists[0].json == lists[1].json
    page = (await fetch(two.it, "/metrics", key=None)).body
    for name in ("default", "bee"):
        assert (await two.it.tenant_id(name)).encode() not in page


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_flight_takes_passengers_of_one_tenant_only(two: TwoTenants, prompt: str, *, stream: bool) -> None:
    keys = [two.a, two.b, *[await two.it.tenant(f"t{number}") for number in range(3)]]
    two.it.upstream.default = Script(echo=False, delay_s=0.3)
    asked = [ask(two.it, said(prompt, stream=stream), key=key) for key in keys * 10]
    replies = await asyncio.gather(*asked)
    assert all(reply.status == 200 for reply in replies)
    assert len(two.it.upstream.calls) == len(keys)
    ids: dict[str, set[str]] = {}
    for key, reply in zip(keys * 10, replies, strict=True):
        ids.setdefault(key, set()).add(reply["x-lamina-cache-id"])
    assert all(len(known) == 1 for known in ids.values())
    assert len(set.union(*ids.values())) == len(keys)
    collapsed = [reply for reply in replies if reply["cache-status"].endswith("collapsed")]
    late = [reply for reply in replies if reply["x-lamina-cache"] == "HIT"]
    assert len(collapsed) + len(late) == 50 - len(keys)
    assert len(collapsed) >= len(keys)


async def test_without_a_key_the_cache_is_neither_read_nor_written(
    two: TwoTenants, prompt: str, redis_server: RedisServer
) -> None:
    await ask(two.it, said(prompt), key=two.a)
    keys = redis_server.command("DBSIZE")
    lookups = await measured(two.it, "lamina_cache_lookups_total")
    for key in (None, "lam_wrong"):
        for body in (said(prompt), said(prompt + " new"), said(prompt, stream=True)):
            reply = await ask(two.it, body, key=key)
            assert reply.status == 401
            assert {"cache-status", "age", "x-lamina-cache"}.isdisjoint(name for name, _ in reply.pairs)
    assert redis_server.command("DBSIZE") == keys
    assert await measured(two.it, "lamina_cache_lookups_total") == lookups
    assert len(two.it.upstream.calls) == 1


@dataclass(frozen=True, slots=True)
class Twins:
    """Two gateways, each with an event loop's worth of state of its own, over one Redis and one database."""

    one: Stand
    two: Stand

    @property
    def both(self) -> tuple[Stand, Stand]:
        return self.one, self.two


@pytest.fixture
async def twins(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Twins]:
    """Two gateways that share everything but memory."""
    async with Upstream() as upstream:
        settings: Settings = settings_for(tmp_path, upstream, redis_server.url)
        async with running(settings, upstream) as one, running(settings, upstream) as two:
            yield Twins(one, two)


async def warm(twins: Twins, body: dict[str, Any], key: str) -> None:
    """Both gateways know the key and serve the prompt from the cache."""
    assert (await ask(twins.one, body, key=key))["x-lamina-cache"] == "MISS"
    for it in twins.both:
        assert (await ask(it, body, key=key))["x-lamina-cache"] == "HIT"


async def key_ids(it: Stand, tenant: str) -> list[str]:
    return [record.key_id for record in await KeyRepository(it.database).list(tenant)]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_revoked_key_is_401_on_the_very_next_request(twins: Twins, prompt: str, *, stream: bool) -> None:
    key = await twins.one.tenant("bee")
    await warm(twins, said(prompt, stream=stream), key)
    (key_id,) = await key_ids(twins.one, "bee")
    await twins.one.revoke(key_id)
    for it in twins.both:
        assert (await ask(it, said(prompt, stream=stream), key=key)).status == 401
        assert (await fetch(it, "/v1/models", key=key)).status == 401
        assert (await ask(it, said(prompt))).status == 200


async def test_another_key_of_the_tenant_goes_on_and_shares_its_entries(twins: Twins, prompt: str) -> None:
    key = await twins.one.tenant("bee")
    await warm(twins, said(prompt), key)
    (key_id,) = await key_ids(twins.one, "bee")
    _, second = await KeyRepository(twins.one.database).create("bee", "second", "test", time.time())
    state = await KeyRepository(twins.one.database).revoke(key_id, "test", time.time())
    await RedisAnnouncer.from_settings(twins.one.settings).announce(
        state.tenant_id, state.auth_seq, state.purge_seq
    )
    for it in twins.both:
        assert (await ask(it, said(prompt), key=second))["x-lamina-cache"] == "HIT"
        assert (await ask(it, said(prompt), key=key)).status == 401


async def test_a_disabled_tenant_is_401_on_the_very_next_request(twins: Twins, prompt: str) -> None:
    key = await twins.one.tenant("bee")
    await warm(twins, said(prompt), key)
    state = await TenantRepository(twins.one.database).disable("bee", "test", time.time())
    await RedisAnnouncer.from_settings(twins.one.settings).announce(
        state.tenant_id, state.auth_seq, state.purge_seq
    )
    for it in twins.both:
        assert (await ask(it, said(prompt), key=key)).status == 401


async def test_a_new_key_works_at_once(twins: Twins, prompt: str) -> None:
    await warm(twins, said(prompt), KEY)
    record, fresh = await KeyRepository(twins.one.database).create("default", "fresh", "test", time.time())
    state = await TenantRepository(twins.one.database).state(record.tenant_id)
    assert state is not None
    await RedisAnnouncer.from_settings(twins.one.settings).announce(
        state.tenant_id, state.auth_seq, state.purge_seq
    )
    for it in twins.both:
        assert (await ask(it, said(prompt), key=fresh))["x-lamina-cache"] == "HIT"


@pytest.mark.slow
async def test_a_change_that_was_never_announced_is_seen_within_the_poll(twins: Twins, prompt: str) -> None:
    key = await twins.one.tenant("bee")
    await warm(twins, said(prompt), key)
    (key_id,) = await key_ids(twins.one, "bee")
    await KeyRepository(twins.one.database).revoke(key_id, "test", time.time())
    for it in twins.both:
        await eventually(lambda it=it: ask(it, said(prompt), key=key), 401, within_s=3)


async def eventually(ask_again: Callable[[], Awaitable[Reply]], status: int, within_s: float) -> None:
    """Asks until the status comes."""
    async with asyncio.timeout(within_s):
        for _ in range(1000):
            if (await ask_again()).status == status:
                return
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("kind", ["all", "model"])
async def test_a_purge_is_obeyed_by_the_next_request_everywhere(twins: Twins, prompt: str, kind: str) -> None:
    twins.one.upstream.enqueue(*(Script(pieces=(text,)) for text in ("old", "new")))
    bee = await twins.one.tenant("bee")
    await warm(twins, said(prompt), KEY)
    await ask(twins.one, said(prompt), key=bee)
    await twins.one.purge(kind, "" if kind == "all" else "m")
    renewed = await ask(twins.two, said(prompt))
    assert renewed["x-lamina-cache"] == "MISS"
    found = await ask(twins.one, said(prompt))
    assert found["x-lamina-cache"] == "HIT"
    assert found.text == renewed.text
    for it in twins.both:
        assert (await ask(it, said(prompt), key=bee))["x-lamina-cache"] == "HIT", "another tenant's purge"


async def test_a_purge_during_a_flight_outlives_its_answer(twins: Twins, prompt: str) -> None:
    twins.one.upstream.enqueue(Script(pieces=("old",), delay_s=0.3), Script(pieces=("new",)))
    flying = asyncio.create_task(ask(twins.one, said(prompt)))
    await twins.one.upstream.until(calls=1)
    await twins.one.purge()
    after = await ask(twins.two, said(prompt))
    assert after.text == "new"
    assert (await flying).text == "old"
    for it in twins.both:
        reply = await ask(it, said(prompt))
        assert reply.text != "old"


async def test_a_request_after_a_purge_does_not_join_a_flight_from_before(twins: Twins, prompt: str) -> None:
    twins.one.upstream.enqueue(Script(pieces=("old",), delay_s=0.3), Script(pieces=("new",)))
    flying = asyncio.create_task(ask(twins.one, said(prompt)))
    await twins.one.upstream.until(calls=1)
    await twins.one.purge()
    assert (await ask(twins.one, said(prompt))).text == "new"
    assert (await flying).text == "old"
