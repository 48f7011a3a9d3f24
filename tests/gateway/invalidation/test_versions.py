"""Versions at two gateways over one Redis and one database: each change is felt at both, and no further."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gateway.db.dependencies import By, Changed, VersionRepository
from gateway.invalidation.announce import RedisAnnouncer
from policies.dependencies import Ref, Version
from policies.fingerprints import segments_of, text_print, tool_print
from tests.gateway.http.wire import Pair, ask, words
from tests.gateway.stand import Stand, running, settings_for
from tests.servers.redis import RedisServer
from tests.upstream import Script, Upstream

HELP = "You help the customers of Acme with their orders."
POET = "You write poems about the sea."
GAPS = "You help the customers of {{company}} with their invoices."
WEATHER = {"name": "weather", "parameters": {"type": "object", "properties": {}}}
TOOLS = [{"type": "function", "function": WEATHER}]


@asynccontextmanager
async def two(home: Path, redis: RedisServer) -> AsyncIterator[tuple[Stand, Stand]]:
    """Two gateways with one upstream."""
    async with Upstream() as upstream:
        settings = settings_for(home, upstream, redis.url, redis={"deadline_ms": 1000})
        async with running(settings, upstream) as one, running(settings, upstream) as other:
            yield one, other


def body(system: str, **fields: Any) -> dict[str, Any]:
    """One question under these instructions."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "Where is it?"}]
    return {"model": "m", "messages": messages, **fields}


def version(name: str, number: str, kind: str, *on: str, **fields: Any) -> Version:
    return Version(name, number, kind, tuple(map(Ref.parse, on)), **fields)


async def told(it: Stand, changed: Changed) -> None:
    """Announces as the command line does."""
    announcer = RedisAnnouncer.from_settings(it.settings)
    for tenant_id, seqs in changed.heads.items():
        await announcer.announce(tenant_id, *seqs)


async def register(it: Stand, made: Version, tenant: str | None = "default") -> Changed:
    changed = await VersionRepository(it.database).register(tenant, made, By("test", "hard", time.time()))
    await told(it, changed)
    return changed


def text(system: str) -> dict[str, tuple[str, ...]]:
    return {"prints": (text_print(system).hex(),)}


async def fill(it: Stand, *asked: tuple[dict[str, Any], Pair | None]) -> None:
    """Has each question answered and stored."""
    for one, header in asked:
        await ask(it, one, *([header] if header else []))
        assert await words(it, one, *([header] if header else [])) == "HIT"


async def test_a_change_is_felt_at_both_and_by_nobody_else(tmp_path: Path, redis_server: RedisServer) -> None:
    async with two(tmp_path, redis_server) as (one, other):
        await register(one, version("kb", "1", "knowledge_base"))
        await register(one, version("help", "1", "prompt", "kb", **text(HELP)))
        await register(one, version("weather", "1", "tools", "kb", prints=(tool_print(WEATHER).hex(),)))
        await register(one, version("bill", "1", "prompt", "kb", templates=(segments_of(GAPS),)))
        await register(one, version("poet", "1", "prompt", **text(POET)))
        filled = GAPS.replace("{{company}}", "Acme & Sons")
        named = ("x-lamina-versions", "kb=1")
        above = [
            (body(HELP), None),
            (body(POET, tools=TOOLS), None),
            (body(filled), None),
            (body("Be brief."), named),
        ]
        beside = [body(POET), body("Be brief."), body("You help the customers of all.")]
        await fill(one, *above, *((asked, None) for asked in beside))
        await register(one, version("kb", "2", "knowledge_base"))
        for asked in beside:
            assert await words(other, asked) == "HIT"
        for asked, header in above:
            assert await words(other, asked, *([header] if header else [])) == "MISS", asked
            assert await words(one, asked, *([header] if header else [])) == "HIT", "and that was filled again"


async def test_a_registration_reaches_entries_from_before_it(tmp_path: Path, redis_server: RedisServer) -> None:
    async with two(tmp_path, redis_server) as (one, other):
        await fill(one, (body(HELP), None), (body(POET, tools=TOOLS), None))
        await register(one, version("kb", "1", "knowledge_base"))
        await register(one, version("help", "1", "prompt", "kb", **text(HELP)))
        await register(one, version("weather", "1", "tools", "kb", prints=(tool_print(WEATHER).hex(),)))
        assert await words(other, body(HELP)) == "HIT"
        await register(other, version("kb", "2", "knowledge_base"))
        assert await words(one, body(HELP)) == "MISS"
        assert await words(one, body(POET, tools=TOOLS)) == "MISS"


async def test_a_model_takes_what_it_made(tmp_path: Path, redis_server: RedisServer) -> None:
    async with two(tmp_path, redis_server) as (one, other):
        await fill(one, (body(HELP), None))
        await register(one, version("model-m", "1", "model", models=("m",)))
        assert await words(other, body(HELP)) == "HIT"
        await register(one, version("model-m", "2", "model", models=("m",)))
        assert await words(other, body(HELP)) == "MISS"


async def test_what_is_for_all_is_felt_by_every_tenant(tmp_path: Path, redis_server: RedisServer) -> None:
    async with two(tmp_path, redis_server) as (one, other):
        key = await one.tenant("acme")
        await register(one, version("kb", "1", "knowledge_base"), None)
        await register(one, version("help", "1", "prompt", "kb", **text(HELP)), None)
        for tenants in (key, None):
            given = {"key": tenants} if tenants else {}
            await ask(one, body(HELP), **given)
            assert (await ask(other, body(HELP), **given))["x-lamina-cache"] == "HIT"
        await register(one, version("kb", "2", "knowledge_base"), None)
        assert (await ask(other, body(HELP), key=key))["x-lamina-cache"] == "MISS"
        assert await words(other, body(HELP)) == "MISS"


async def test_a_change_while_the_model_thinks_takes_its_answer(tmp_path: Path, redis_server: RedisServer) -> None:
    async with two(tmp_path, redis_server) as (one, other):
        await register(one, version("kb", "1", "knowledge_base"))
        await register(one, version("bill", "1", "prompt", "kb", templates=(segments_of(GAPS),)))
        filled = body(GAPS.replace("{{company}}", "Acme & Sons"))
        one.upstream.default = Script(pieces=("before",), delay_s=1.0)
        asking = asyncio.create_task(ask(one, filled))
        await one.upstream.until(calls=1, within_s=10)
        await register(other, version("kb", "2", "knowledge_base"))
        assert (await asking).text == "before"
        one.upstream.default = Script(pieces=("after",))
        for each in (other, one):
            assert (await ask(each, filled)).text == "after"
