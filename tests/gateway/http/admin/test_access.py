"""Administrator's routes: nobody but the administrator gets so much as told which ones there are."""

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from gateway.errors import ApiError
from gateway.http.admin.access import Access
from gateway.http.admin.surface import AdminRoute, AdminSurface
from gateway.http.asgi import Message
from gateway.settings import LimitSettings
from policies.types import Json, Principal

ADMIN, TENANT = "lam_admin_" + "a" * 40, "lam_of_some_tenant"


async def authenticate(digest: bytes) -> Principal:
    if digest == hashlib.sha256(TENANT.encode()).digest():
        return Principal("T1", "K1")
    raise ApiError(401, "unknown")


async def echo(body: Json) -> Mapping[str, Any]:
    return {"asked": body}


class Admin:
    """One surface, asked without a server; keeps what was logged."""

    def __init__(self, key: str | None = ADMIN) -> None:
        self.events: list[dict[str, Any]] = []
        routes = {"/admin/v1/echo": AdminRoute("POST", echo), "/admin/v1/state": AdminRoute("GET", echo)}
        limits = LimitSettings(body_bytes=2048)
        self.surface = AdminSurface(Access(key, authenticate), routes, limits, self.events.append)  # type: ignore[arg-type]

    async def ask(
        self, key: str | None, path: str = "/admin/v1/echo", method: str = "POST", body: bytes = b"{}"
    ) -> tuple[int, Any]:
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body}

        async def send(message: Message) -> None:
            await asyncio.sleep(0)
            sent.append(message)

        headers = [(b"authorization", f"Bearer {key}".encode())] if key else []
        scope = {"type": "http", "method": method, "path": path, "headers": headers}
        await self.surface(scope, receive, send)
        return sent[0]["status"], orjson.loads(sent[1]["body"])


@pytest.mark.parametrize("path", ["/admin/v1/echo", "/admin/v1/state", "/admin/v1/nothing", "/admin/"])
@pytest.mark.parametrize(
    ("key", "status"), [(None, 401), ("", 401), ("lam_nobody", 401), (ADMIN + "x", 401), (TENANT, 403)]
)
async def test_nobody_else_gets_in(key: str | None, status: int, path: str) -> None:
    told, body = await Admin().ask(key, path)
    assert told == status
    assert body["error"]["code"] == ("not_administrator" if status == 403 else "invalid_admin_key")
    assert "echo" not in orjson.dumps(body).decode()


@pytest.mark.parametrize("key", [None, "", "None", "lam_nobody"])
async def test_without_an_administrators_key_nobody_gets_in(key: str | None) -> None:
    assert (await Admin(key=None).ask(key))[0] == 401
    assert (await Admin(key="").ask(key))[0] == 401


async def test_the_administrator_gets_in() -> None:
    it = Admin()
    assert await it.ask(ADMIN, body=b'{"a": 1}') == (200, {"asked": {"a": 1}})
    assert await it.ask(ADMIN, "/admin/v1/state", "GET") == (200, {"asked": {}})


async def test_wrong_paths_methods_and_bodies_are_told_to_the_administrator() -> None:
    it = Admin()
    assert (await it.ask(ADMIN, "/admin/v1/nothing"))[0] == 404
    assert (await it.ask(ADMIN, method="DELETE"))[0] == 405
    assert (await it.ask(ADMIN, body=b"[]"))[0] == 400
    assert (await it.ask(ADMIN, body=b'{"a": 1, "a": 2}'))[0] == 400
    assert (await it.ask(ADMIN, body=b" " * 4096))[0] == 413


async def test_the_log_has_neither_keys_nor_bodies() -> None:
    it = Admin()
    await it.ask(ADMIN, body=b'{"secret": "of the prompt"}')
    await it.ask(TENANT)
    assert [event["status"] for event in it.events] == [200, 403]
    text = str(it.events)
    assert ADMIN not in text
    assert TENANT not in text
    assert "prompt" not in text
