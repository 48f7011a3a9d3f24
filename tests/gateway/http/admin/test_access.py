"""Administrator's routes: nobody but the administrator gets so much as told which ones there are."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
from fastapi import APIRouter

from gateway.db import Database, TenantRepository, TokenRepository
from gateway.errors import SettingsError
from gateway.http.admin.app import admin_app
from gateway.http.admin.bodies import Body
from gateway.http.admin.frame import Admin, FleetOperator, Operator, Paged, Reader, area
from tests.gateway.http.admin.desk import ADMIN, NOW_S, TENANT, Asking, asking


class EchoBody(Body):
    a: int | None = None
    secret: str | None = None


def routers(_database: Database) -> list[APIRouter]:
    router = area("echo")

    @router.post("/echo")
    async def echo(_caller: Operator, body: EchoBody) -> dict[str, Any]:
        return {"asked": body.model_dump(exclude_unset=True)}

    @router.get("/state")
    async def state(_caller: Reader, page: Paged) -> dict[str, Any]:
        return {"limit": page.limit, "after": page.after}

    @router.delete("/things/{thing}")
    async def drop(_caller: Admin, thing: str) -> dict[str, str]:
        return {"thing": thing}

    @router.post("/fleet")
    async def fleet(_caller: FleetOperator) -> dict[str, str]:
        return {}

    @router.get("/fault")
    async def fault(_caller: Reader) -> dict[str, str]:
        raise RuntimeError("the prompt was: secret")

    return [router]


@pytest_asyncio.fixture
async def it(tmp_path: Path) -> AsyncIterator[Asking]:
    async with asking(tmp_path, routers) as one:
        yield one


@pytest.mark.parametrize("path", ["/admin/v1/echo", "/admin/v1/state", "/admin/v1/nothing", "/admin/"])
@pytest.mark.parametrize(
    ("key", "status"), [(None, 401), ("", 401), ("lam_nobody", 401), (ADMIN + "x", 401), (TENANT, 403)]
)
async def test_nobody_else_gets_in(it: Asking, key: str | None, status: int, path: str) -> None:
    told = await it.ask(key, path)
    assert told.status == status
    assert told.headers["content-type"] == "application/problem+json"
    assert told.body["code"] == ("not_administrator" if status == 403 else "invalid_admin_key")
    assert "echo" not in orjson.dumps(told.body).decode()


@pytest.mark.parametrize("none", [None, ""])
async def test_without_an_administrators_key_nobody_gets_in(tmp_path: Path, none: str | None) -> None:
    async with asking(tmp_path, routers, key=none) as it:
        for key in (None, "", "None", "lam_nobody"):
            assert (await it.ask(key)).status == 401


async def test_the_administrator_gets_in(it: Asking) -> None:
    told = await it.ask(ADMIN, body=b'{"a": 1}')
    assert (told.status, told.body) == (200, {"asked": {"a": 1}})
    assert told.headers["cache-control"] == "no-store"
    assert told.headers["x-request-id"].startswith("req_")
    assert (await it.ask(ADMIN, "/admin/v1/state?limit=7&after=x", "GET")).body == {"limit": 7, "after": "x"}


@pytest.mark.parametrize(
    ("path", "method", "body", "status", "code"),
    [
        ("/admin/v1/nothing", "POST", b"{}", 404, "no_such_route"),
        ("/admin/v1/echo", "DELETE", b"{}", 405, "method_not_allowed"),
        ("/admin/v1/echo/", "POST", b"{}", 404, "no_such_route"),
        ("/admin/v1/echo", "POST", b"[]", 400, "invalid_json"),
        ("/admin/v1/echo", "POST", b'{"a": 1, "a": 2}', 400, "invalid_json"),
        ("/admin/v1/echo", "POST", b'{"a": NaN}', 400, "invalid_json"),
        ("/admin/v1/echo", "POST", b'{"a": "1"}', 400, "invalid_request"),
        ("/admin/v1/echo", "POST", b'{"b": 1}', 400, "invalid_request"),
        ("/admin/v1/echo", "POST", b"", 400, "invalid_request"),
        ("/admin/v1/echo", "POST", b" " * 4096, 413, "request_too_large"),
        ("/admin/v1/state?limit=0", "GET", b"", 400, "invalid_request"),
        ("/admin/v1/state?limit=1001", "GET", b"", 400, "invalid_request"),
        ("/admin/docs", "GET", b"", 404, "no_such_route"),
        ("/openapi.json", "GET", b"", 404, "no_such_route"),
    ],
)
async def test_what_is_wrong_is_told_to_the_administrator(  # noqa: PLR0917  (a row of the table)
    it: Asking, path: str, method: str, body: bytes, status: int, code: str
) -> None:
    told = await it.ask(ADMIN, path, method, body)
    assert (told.status, told.body["code"], told.body["status"]) == (status, code, status)
    assert told.body["type"] == f"urn:lamina:problem:{code}"
    assert told.headers["content-type"] == "application/problem+json"
    assert told.headers["cache-control"] == "no-store"


async def test_an_error_never_quotes_what_was_sent(it: Asking) -> None:
    told = await it.ask(ADMIN, body=b'{"secret": {"of": "the prompt"}}')
    assert told.status == 400
    assert "prompt" not in orjson.dumps(told.body).decode()
    assert told.body["errors"] == [{"where": "body.secret", "problem": "Input should be a valid string"}]


async def test_a_fault_is_a_problem_and_goes_on_to_be_recorded(it: Asking) -> None:
    with pytest.raises(RuntimeError):
        await it.ask(ADMIN, "/admin/v1/fault", "GET")
    assert (it.events[-1]["status"], it.events[-1]["reason"]) == (500, "fault")


async def test_the_log_has_neither_keys_nor_bodies(it: Asking) -> None:
    await it.ask(ADMIN, body=b'{"secret": "of the prompt"}')
    await it.ask(TENANT)
    assert [(event["status"], event["route"], event["actor"]) for event in it.events] == [
        (200, "admin.echo", "admin"),
        (403, "admin", "-"),
    ]
    text = str(it.events)
    assert ADMIN not in text
    assert TENANT not in text
    assert "prompt" not in text


async def test_a_role_may_do_what_those_below_it_may(it: Asking) -> None:
    tokens = TokenRepository(it.database)
    allowed = {"reader": (200, 403, 403), "operator": (200, 200, 403), "admin": (200, 200, 200)}
    for role, statuses in allowed.items():
        record, token = await tokens.create("t", role, None, None, "test", NOW_S)  # type: ignore[arg-type]
        asked = (
            (await it.ask(token, "/admin/v1/state", "GET")).status,
            (await it.ask(token)).status,
            (await it.ask(token, "/admin/v1/things/x", "DELETE", b"")).status,
        )
        assert asked == statuses
        assert it.events[-1]["actor"] == f"token:{record.token_id}"


async def test_a_token_ends_at_its_time_and_at_once_when_it_is_revoked(it: Asking) -> None:
    tokens = TokenRepository(it.database)
    _, ending = await tokens.create("", "reader", None, NOW_S + 5, "test", NOW_S)
    record, lasting = await tokens.create("", "reader", None, None, "test", NOW_S)
    assert (await it.ask(ending, "/admin/v1/state", "GET")).status == 200
    it.clock[0] = NOW_S + 5
    assert (await it.ask(ending, "/admin/v1/state", "GET")).status == 401
    assert (await it.ask(lasting, "/admin/v1/state", "GET")).status == 200
    await tokens.revoke(record.token_id, "test", NOW_S)
    assert (await it.ask(lasting, "/admin/v1/state", "GET")).status == 401


async def test_many_keys_of_nobody_have_to_wait_and_right_ones_do_not(it: Asking) -> None:
    tokens = TokenRepository(it.database)
    record, known = await tokens.create("", "reader", None, None, "test", NOW_S)
    state = ("/admin/v1/state", "GET")
    assert (await it.ask(known, *state)).status == 200
    assert [(await it.ask(TENANT, *state)).status for _ in range(5)] == [403] * 5, "somebody's, so not counted"
    for number in range(100):
        assert (await it.ask(f"lam_nobody_{number}", *state)).status == 401
    told = await it.ask("lam_nobody", *state)
    assert (told.status, told.body["code"], told.headers["retry-after"]) == (429, "too_many_attempts", "60")
    assert (await it.ask(None, *state)).status == 401
    assert [(await it.ask(key, *state)).status for key in (ADMIN, known)] == [200, 200]
    await tokens.revoke(record.token_id, "test", NOW_S)
    assert [(await it.ask(known, *state)).status for _ in range(2)] == [401, 429]
    it.clock[0] = NOW_S + 61
    assert (await it.ask("lam_nobody", *state)).status == 401


async def test_what_concerns_everybody_is_not_for_a_bound_token(it: Asking) -> None:
    await TenantRepository(it.database).create("acme", "test", NOW_S)
    _, bound = await TokenRepository(it.database).create("", "admin", ["acme"], None, "test", NOW_S)
    assert (await it.ask(bound)).status == 200
    told = await it.ask(bound, "/admin/v1/fleet", body=b"")
    assert (told.status, told.body["code"]) == (403, "token_is_bound")


async def test_a_database_that_is_away_is_no_stranger(it: Asking) -> None:
    _, token = await TokenRepository(it.database).create("", "reader", None, None, "test", NOW_S)
    await it.database.close()
    told = await it.ask(token, "/admin/v1/state", "GET")
    assert (told.status, told.body["code"]) == (503, "auth_unavailable")
    assert (await it.ask(ADMIN, "/admin/v1/state", "GET")).status == 200


def test_a_route_without_a_role_or_of_another_kind_is_not_served() -> None:
    bare = area("bare")

    @bare.get("/bare")
    async def bare_() -> None: ...

    with pytest.raises(SettingsError, match="exactly one role"):
        admin_app([bare], "0")
    foreign = APIRouter()

    @foreign.get("/admin/v1/foreign")
    async def foreign_(_caller: Reader) -> None: ...

    with pytest.raises(SettingsError, match="area"):
        admin_app([foreign], "0")
