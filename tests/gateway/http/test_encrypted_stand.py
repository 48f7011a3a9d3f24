"""Encryption in a running gateway: Redis shows nothing, and what it says back that is not ours is a miss."""

import asyncio
import time
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from gateway.db import DataKeyRepository, TenantRepository
from gateway.invalidation.announce import RedisAnnouncer
from gateway.layers.exact import entry_key
from gateway.redis_link import RedisLink, RedisTarget
from tests.gateway.stand import KEY, Stand, stand
from tests.gateway.whole_set import until
from tests.servers.redis import RedisServer
from tests.upstream import Script

ENCRYPTED = {"encryption": {"master_key": SecretStr("m" * 40)}}
CANARY = "Quixvanthropole"


def redis(server: RedisServer) -> RedisLink:
    return RedisLink(RedisTarget.parse(server.url), deadline_s=5, failures=100, retry_s=1, on_fault=lambda _: None)


async def ask(it: Stand, words: str = CANARY, key: str = KEY) -> tuple[bool, str]:
    """Whether it was a hit, and the key's digest."""
    asked: Any = [{"role": "user", "content": words}]
    async with it.client(key) as client:
        raw = await client.chat.completions.with_raw_response.create(model="m", messages=asked)
    return "; hit" in raw.headers["cache-status"], str(raw.headers.get("x-lamina-cache-id", ""))


async def names(link: RedisLink) -> list[str]:
    return sorted(name.decode() for name in await link.call("KEYS", "lamina:*:e:*"))


async def test_redis_shows_nothing_and_a_hit_is_a_hit(tmp_path: Path, redis_server: RedisServer) -> None:
    link = redis(redis_server)
    async with stand(tmp_path, redis_server, **ENCRYPTED) as it:
        it.upstream.default = Script(pieces=(CANARY,))
        assert [(await ask(it))[0] for _ in range(3)] == [False, True, True]
        (name,) = await names(link)
        value = await link.call("GET", name)
        assert value[3:4] in {b"\x02", b"\x03"}
        assert CANARY.encode() not in value
        assert it.upstream.count == 1
    await link.close()


async def test_swapped_changed_and_replayed_values_are_misses(tmp_path: Path, redis_server: RedisServer) -> None:
    link = redis(redis_server)
    async with stand(tmp_path, redis_server, **ENCRYPTED) as it:
        other = await it.tenant("other")
        await ask(it)
        await ask(it, "Something else")
        await ask(it, key=other)
        mine, tenant_id = await names(link), await it.tenant_id()
        values = {name: await link.call("GET", name) for name in mine}
        foreign = next(name for name in mine if tenant_id not in name)
        first, second = (name for name in mine if tenant_id in name)
        flipped = bytearray(values[first])
        flipped[-1] ^= 1
        for lie in (values[second], values[foreign], bytes(flipped), values[first][:-3]):
            for name in (first, second):
                if lie != values[name]:
                    await link.call("SET", name, lie)
            hits = [(await ask(it))[0], (await ask(it, "Something else"))[0]]
            assert hits.count(True) == sum(lie == values[name] for name in (first, second))
        await DataKeyRepository(it.database).destroy(tenant_id, "test", time.time())
        state = await TenantRepository(it.database).state(tenant_id)
        assert state is not None
        await RedisAnnouncer.from_settings(it.settings).announce(tenant_id, state.auth_seq, state.purge_seq)
        await link.call("SET", first, values[first])
        assert not (await ask(it))[0], "sealed under a key that is no more"
        assert (await ask(it))[0], "and stored anew under the next"
    await link.close()


async def test_what_was_purged_while_the_model_was_asked_leaves_no_bytes(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    link = redis(redis_server)
    async with stand(tmp_path, redis_server, **ENCRYPTED) as it:
        it.upstream.enqueue(Script(pieces=(CANARY,), delay_s=3.0))
        asking = asyncio.create_task(ask(it))
        await until(lambda: it.upstream.count > 0)
        await it.purge()
        await ask(it, "Something that makes this worker look")
        assert (await asking)[0] is False
        tenant_id = await it.tenant_id()
        assert len(await names(link)) == 1
        assert entry_key(tenant_id, "") in (await names(link))[0]
    await link.close()
