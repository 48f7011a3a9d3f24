"""A whole gateway for tests: real sockets, real Redis, a real SQLite file, a scripted upstream."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
from pydantic import SecretStr

from gateway.app import App, create_app
from gateway.db import Database, KeyRepository, PurgeRepository, TenantRepository, bootstrap
from gateway.invalidation.announce import RedisAnnouncer
from gateway.settings import ModelSettings, ProviderSettings, Settings
from gateway.worker import server_for
from tests.servers.redis import RedisServer
from tests.servers.sqlite import PATIENCE_S, open_migrated
from tests.upstream import Upstream

KEY = "lam_test_key_of_the_default_tenant"


@dataclass(slots=True)
class Stand:
    """A running gateway and what stands around it."""

    app: App
    url: str
    settings: Settings
    upstream: Upstream
    database: Database

    @property
    def base_url(self) -> str:
        """What an SDK takes as base URL."""
        return f"{self.url}/v1"

    def client(self, key: str = KEY, **options: Any) -> openai.AsyncOpenAI:
        """The official SDK, no retries."""
        return openai.AsyncOpenAI(api_key=key, base_url=self.base_url, max_retries=0, **options)

    async def tenant(self, name: str) -> str:
        """A new tenant's key."""
        await TenantRepository(self.database).create(name, "test", time.time())
        _, key = await KeyRepository(self.database).create(name, "test", "test", time.time())
        return key

    async def tenant_id(self, name: str = "default") -> str:
        """A tenant's id."""
        return (await TenantRepository(self.database).find(name)).tenant_id

    async def purge(self, kind: str = "all", value: str = "", mode: str = "hard", tenant: str = "default") -> int:
        """Purges as the command line does: commit, then announce."""
        tenant_id = await self.tenant_id(tenant)
        row = await PurgeRepository(self.database).append(
            tenant_id=tenant_id, kind=kind, value=value, mode=mode, actor="test", reason="test", now_s=time.time()
        )
        state = await TenantRepository(self.database).state(tenant_id)
        assert state is not None
        await RedisAnnouncer.from_settings(self.settings).announce(tenant_id, state.auth_seq, row.seq)
        return row.seq

    async def revoke(self, key_id: str) -> None:
        """Revokes a key as the command line does."""
        state = await KeyRepository(self.database).revoke(key_id, "test", time.time())
        await RedisAnnouncer.from_settings(self.settings).announce(
            state.tenant_id, state.auth_seq, state.purge_seq
        )


def settings_for(home: Path, upstream: Upstream, redis_url: str, **changes: Any) -> Settings:
    """Settings of a gateway over a scripted upstream; `changes` replace top-level settings."""
    values: dict[str, Any] = {
        "home": home,
        "secret": SecretStr("s" * 40),
        "redis_url": SecretStr(redis_url),
        "database_url": SecretStr(f"sqlite:///{home / 'lamina.db'}"),
        "database_deadline_ms": 1000 * PATIENCE_S,
        "engine": {"enabled": False},
        "providers": {"up": ProviderSettings(base_url=upstream.base_url)},
        "models": (ModelSettings(name="m", provider="up", aliases=("alias",)),),
        **changes,
    }
    return Settings.model_validate(values)


@contextlib.asynccontextmanager
async def running(settings: Settings, upstream: Upstream) -> AsyncIterator[Stand]:
    """Serves on a free port of the loopback until the block ends."""
    url = settings.database_url.get_secret_value() if settings.database_url else ""
    database = await open_migrated(url)
    await bootstrap(database, KEY, time.time())
    app = create_app(settings)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server = server_for(app, settings)
    with contextlib.ExitStack() as quiet:
        quiet.callback(listener.close)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0.005)
            if serving.done():
                serving.result()
        port = listener.getsockname()[1]
        try:
            yield Stand(app, f"http://127.0.0.1:{port}", settings, upstream, database)
        finally:
            server.should_exit = True
            await serving
            await database.close()


@contextlib.asynccontextmanager
async def stand(home: Path, redis: RedisServer, **changes: Any) -> AsyncIterator[Stand]:
    """A gateway over a scripted upstream and a real Redis."""
    async with Upstream() as upstream, running(settings_for(home, upstream, redis.url, **changes), upstream) as it:
        yield it
