"""The administrator's API of a whole gateway: real sockets, Redis and SQLite."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from pydantic import SecretStr

from gateway.db import TokenRepository, TokenRole
from tests.gateway.http.wire import line, message
from tests.gateway.stand import Stand, stand
from tests.servers.redis import RedisServer

ADMIN = "lam_admin_" + "a" * 40


@dataclass(frozen=True)
class Told:
    """What a request got."""

    status: int
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Office:
    """A gateway, and requests to its administrator's API."""

    it: Stand

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        key: str | None = ADMIN,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> Told:
        """One request to a path below `/admin/v1`, or to a whole one."""
        raw = b"" if body is None else orjson.dumps(body)
        usual = [("host", "lamina"), ("content-type", "application/json"), ("content-length", str(len(raw)))]
        if key is not None:
            usual.append(("authorization", f"Bearer {key}"))
        whole = path if path.startswith("/admin") else f"/admin/v1{path}"
        async with line(self.it) as opened:
            await opened.send(message(method, whole, [*usual, *headers], raw))
            reply = await opened.reply()
        return Told(reply.status, dict(reply.pairs), orjson.loads(reply.body) if reply.body else None)

    async def token(self, role: TokenRole, *tenants: str) -> str:
        """A new token."""
        tokens = TokenRepository(self.it.database)
        _, token = await tokens.create("test", role, tenants or None, None, "test", time.time())
        return token


@asynccontextmanager
async def office(home: Path, redis: RedisServer, **changes: Any) -> AsyncIterator[Office]:
    """A gateway with an administrator."""
    async with stand(home, redis, admin_key=SecretStr(ADMIN), **changes) as it:
        yield Office(it)
