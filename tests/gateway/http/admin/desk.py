"""The administrator's surface without a server, for tests: asked in process, real SQLite behind it."""

import asyncio
import hashlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from fastapi import APIRouter

from gateway.db import Database, TokenRepository
from gateway.db.once import OnceRepository
from gateway.errors import ApiError
from gateway.http.admin.access import Access
from gateway.http.admin.app import admin_app
from gateway.http.admin.once import Once
from gateway.http.admin.surface import AdminSurface
from gateway.http.asgi import Message
from gateway.settings import LimitSettings
from gateway.telemetry.metrics import Metrics
from policies.types import Principal
from tests.servers.sqlite import open_migrated

ADMIN, TENANT = "lam_admin_" + "a" * 40, "lam_of_some_tenant"
NOW_S = 1000.0


@dataclass(frozen=True)
class Answer:
    """What a request got."""

    status: int
    headers: dict[str, str]
    body: Any


async def authenticate(digest: bytes) -> Principal:
    """Knows one tenant's key."""
    if digest == hashlib.sha256(TENANT.encode()).digest():
        return Principal("T1", "K1")
    raise ApiError(401, "unknown")


@dataclass
class Asking:
    """A surface; keeps what was logged."""

    surface: AdminSurface
    database: Database
    clock: list[float]
    events: list[dict[str, Any]] = field(default_factory=list)

    async def ask(  # noqa: PLR0917  (as they are written on a line)
        self,
        key: str | None,
        path: str = "/admin/v1/echo",
        method: str = "POST",
        body: bytes = b"{}",
        once: str | None = None,
        headers: Iterable[tuple[bytes, bytes]] = (),
    ) -> Answer:
        """One request."""
        sent: list[Message] = []
        given = itertools.chain([body])

        async def receive() -> Message:
            part = next(given, None)
            return {"type": "http.disconnect"} if part is None else {"type": "http.request", "body": part}

        async def send(message: Message) -> None:
            await asyncio.sleep(0)
            sent.append(message)

        all_headers = [*headers]
        if key is not None:
            all_headers.append((b"authorization", f"Bearer {key}".encode()))
        if once is not None:
            all_headers.append((b"idempotency-key", once.encode()))
        bare, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": bare,
            "raw_path": bare.encode(),
            "query_string": query.encode(),
            "headers": all_headers,
        }
        await self.surface(scope, receive, send)
        raw = b"".join(message.get("body", b"") for message in sent[1:])
        told = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], told, orjson.loads(raw) if raw else None)


@asynccontextmanager
async def asking(
    folder: Path,
    routers: Callable[[Database], list[APIRouter]],
    *,
    key: str | None = ADMIN,
    url: str | None = None,
) -> AsyncIterator[Asking]:
    """A surface over these routers."""
    database = await open_migrated(url or f"sqlite:///{folder}/lamina.db")
    metrics = Metrics(asyncio.get_running_loop().call_later)
    clock = [NOW_S]
    once = Once(OnceRepository(database), b"s" * 32, metrics, lambda: clock[0])
    events: list[dict[str, Any]] = []
    access = Access(key, TokenRepository(database), authenticate, lambda: clock[0])
    surface = AdminSurface(
        access,
        admin_app(routers(database), "0"),
        once,
        LimitSettings(body_bytes=2048),
        events.append,  # type: ignore[arg-type]
    )
    try:
        yield Asking(surface, database, clock, events)
    finally:
        metrics.flush()
        await database.close()
