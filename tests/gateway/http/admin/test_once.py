"""Idempotency keys: one effect however often, and at once, a change is asked for; on both databases."""

import asyncio
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from fastapi import APIRouter, Response
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.db import Database, TokenRepository
from gateway.db.once import OnceRow
from gateway.errors import ApiError, DatabaseUnavailable
from gateway.http.admin.bodies import Body
from gateway.http.admin.frame import READS, REPEATABLE, Operator, Reader, area
from gateway.http.admin.once import IN_FLIGHT_S, Asked, Once
from tests.gateway.db.conftest import (
    FORGET,
    migrated_postgres,
    migrated_sqlite,
)
from tests.gateway.http.admin.desk import ADMIN, NOW_S, Asking, asking
from tests.servers.postgres import PostgresServer

__all__ = ["migrated_postgres", "migrated_sqlite"]


class Deed(Body):
    what: str = "x"
    fails: int = 0


class Doer:
    """Counts what it did; does it as long as `gate` is open."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.gate = asyncio.Event()
        self.gate.set()

    def routers(self, _database: Database) -> list[APIRouter]:
        router = area("deeds")

        async def do(body: Deed) -> dict[str, Any]:
            self.done[body.what] += 1
            await self.gate.wait()
            if body.fails == 503:
                raise DatabaseUnavailable
            if body.fails:
                raise ApiError(body.fails, "It failed.")
            return {"secret": f"lam_{body.what}_{self.done[body.what]}"}

        @router.post("/deeds", status_code=201)
        async def once(_caller: Operator, body: Deed, response: Response) -> dict[str, Any]:
            response.headers["cache-group-invalidation"] = '"docs"'
            return await do(body)

        @router.post("/again", openapi_extra=REPEATABLE)
        async def again(_caller: Operator, body: Deed) -> dict[str, Any]:
            return await do(body)

        @router.post("/looks", openapi_extra=READS)
        async def look(_caller: Reader, body: Deed) -> dict[str, Any]:
            return await do(body)

        return [router]


@pytest.fixture(params=["sqlite", "postgresql"])
def records_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database with empty tables, of each kind in turn."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("migrated_sqlite"), tmp_path / "lamina.db")
        yield f"sqlite:///{tmp_path}/lamina.db"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url: str = request.getfixturevalue("migrated_postgres")
    yield url
    server.execute(FORGET, url)


@pytest.fixture
def doer() -> Doer:
    return Doer()


@pytest_asyncio.fixture
async def it(tmp_path: Path, records_url: str, doer: Doer) -> AsyncIterator[Asking]:
    async with asking(tmp_path, doer.routers, url=records_url) as one:
        yield one


DEEDS = "/admin/v1/deeds"


def stored(folder: Path) -> bytes:
    """All bytes of a SQLite database."""
    return b"".join(file.read_bytes() for file in folder.glob("lamina.db*"))


async def test_the_same_is_told_again_and_not_done_again(it: Asking, doer: Doer) -> None:
    first = await it.ask(ADMIN, DEEDS, once="k")
    second = await it.ask(ADMIN, DEEDS, once="k")
    assert (first.status, first.body) == (201, {"secret": "lam_x_1"})
    assert (second.status, second.body) == (first.status, first.body)
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    for told in (first, second):
        assert (told.headers["cache-group-invalidation"], told.headers["content-type"]) == (
            '"docs"',
            "application/json",
        )
    assert doer.done["x"] == 1
    assert (await it.ask(ADMIN, DEEDS)).body == {"secret": "lam_x_2"}


async def test_another_request_under_the_same_key_is_refused(it: Asking, doer: Doer) -> None:
    await it.ask(ADMIN, DEEDS, once="k")
    for path, body in ((DEEDS, b'{"what":"y"}'), ("/admin/v1/again", b"{}"), (f"{DEEDS}?a=1", b"{}")):
        told = await it.ask(ADMIN, path, body=body, once="k")
        assert (told.status, told.body["code"]) == (422, "idempotency_key_reused")
    assert sum(doer.done.values()) == 1


async def test_keys_of_two_callers_never_meet(it: Asking, doer: Doer) -> None:
    _, token = await TokenRepository(it.database).create("", "operator", None, None, "test", NOW_S)
    assert (await it.ask(ADMIN, DEEDS, once="k")).body == {"secret": "lam_x_1"}
    assert (await it.ask(token, DEEDS, once="k")).body == {"secret": "lam_x_2"}


@pytest.mark.parametrize("path", [DEEDS, "/admin/v1/again"])
async def test_at_once_one_does_it_and_the_others_wait_or_are_told(it: Asking, doer: Doer, path: str) -> None:
    doer.gate.clear()
    asked = [asyncio.create_task(it.ask(ADMIN, path, once="k")) for _ in range(20)]
    async with asyncio.timeout(20):
        while sum(task.done() for task in asked) < 19:  # noqa: ASYNC110  (no event to wait for)
            await asyncio.sleep(0.01)
    doer.gate.set()
    told = await asyncio.gather(*asked)
    assert Counter(one.status for one in told)[409] == 19
    assert {one.body.get("code") for one in told if one.status == 409} <= {"in_flight", "conflict"}
    assert doer.done["x"] == 1
    assert (await it.ask(ADMIN, path, once="k")).status in {200, 201}
    assert doer.done["x"] == 1


@pytest.mark.parametrize("status", [400, 404, 409])
async def test_what_was_refused_leaves_its_key_free(it: Asking, doer: Doer, status: int) -> None:
    body = b'{"fails":%d}' % status
    assert (await it.ask(ADMIN, DEEDS, body=body, once="k")).status == status
    assert (await it.ask(ADMIN, DEEDS, once="k")).status == 201
    assert doer.done["x"] == 2


async def test_a_refused_role_takes_no_key(it: Asking, doer: Doer) -> None:
    _, token = await TokenRepository(it.database).create("", "reader", None, None, "test", NOW_S)
    assert (await it.ask(token, DEEDS, once="k")).status == 403
    assert (await it.ask(token, DEEDS, body=b'{"what":1}', once="k")).status == 403
    assert doer.done == {}


async def test_what_broke_off_is_not_done_again_unless_it_may_be(it: Asking, doer: Doer) -> None:
    broken = b'{"fails":503}'
    assert (await it.ask(ADMIN, DEEDS, body=broken, once="k")).status == 503
    assert (await it.ask(ADMIN, DEEDS, body=broken, once="k")).body["code"] == "in_flight"
    it.clock[0] += IN_FLIGHT_S + 1
    told = await it.ask(ADMIN, DEEDS, body=broken, once="k")
    assert (told.status, told.body["code"]) == (409, "outcome_unknown")
    assert doer.done["x"] == 1
    for _ in range(2):
        assert (await it.ask(ADMIN, "/admin/v1/again", body=broken, once="r")).status == 503
    assert doer.done["x"] == 3


async def test_a_day_later_the_key_is_free(it: Asking, doer: Doer) -> None:
    await it.ask(ADMIN, DEEDS, once="k")
    it.clock[0] += 24 * 3600 + 1
    assert (await it.ask(ADMIN, DEEDS, once="k")).body == {"secret": "lam_x_2"}


async def test_what_changes_nothing_keeps_nothing(it: Asking, doer: Doer) -> None:
    for _ in range(2):
        assert (await it.ask(ADMIN, "/admin/v1/looks", once="k")).status == 200
    assert doer.done["x"] == 2


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "tab\t"])
async def test_what_is_no_key_is_refused(it: Asking, doer: Doer, key: str) -> None:
    told = await it.ask(ADMIN, DEEDS, once=key)
    assert (told.status, told.body["code"]) == (400, "bad_idempotency_key")
    assert doer.done == {}


async def test_the_database_holds_neither_key_nor_answer(it: Asking, records_url: str, tmp_path: Path) -> None:
    await it.ask(ADMIN, DEEDS, once="key-of-the-caller")
    if records_url.startswith("sqlite"):
        raw = await asyncio.to_thread(stored, tmp_path)
        assert b"lam_x_1" not in raw
        assert b"key-of-the-caller" not in raw
        assert b"admin_once" in raw


async def test_what_another_version_kept_is_not_misread(it: Asking, doer: Doer) -> None:
    await it.ask(ADMIN, DEEDS, once="k")
    once = it.surface._once
    asked = Asked("admin", "k", b"d" * 32, repeatable=False)
    nonce = bytes(12)
    older = nonce + AESGCM(once._cipher_key(asked)).encrypt(nonce, b'{"secret":"lam_x_1"}', asked.digest)
    with pytest.raises(ApiError) as refused:
        once._again(asked, OnceRow(asked.digest, 0.0, 201, older))
    assert refused.value.code == "already_done"
    assert doer.done["x"] == 1


async def test_an_answer_that_cannot_be_opened_is_not_done_again(it: Asking, doer: Doer) -> None:
    await it.ask(ADMIN, DEEDS, once="k")
    old = it.surface._once
    it.surface._once = Once(old._kept, b"another secret of thirty-two byte", old._metrics, lambda: it.clock[0])
    told = await it.ask(ADMIN, DEEDS, once="k")
    assert (told.status, told.body["code"]) == (409, "already_done")
    assert doer.done["x"] == 1


@pytest.mark.slow
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
@given(
    asks=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), min_size=2, max_size=14),
    tasks=st.integers(1, 6),
)
def test_each_key_has_one_effect_whatever_the_order(
    tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path, asks: list[tuple[str, str]], tasks: int
) -> None:
    async def work() -> None:
        doer, folder = Doer(), tmp_path_factory.mktemp("once")
        shutil.copy(migrated_sqlite, folder / "lamina.db")
        async with asking(folder, doer.routers) as it:
            limit = asyncio.Semaphore(tasks)

            async def one(key: str, what: str) -> tuple[str, str, int, Any]:
                async with limit:
                    while True:
                        told = await it.ask(ADMIN, DEEDS, body=b'{"what":"%s"}' % what.encode(), once=key)
                        if told.status != 409:
                            return key, what, told.status, told.body

            told = await asyncio.gather(*[one(key, what) for key, what in asks])
            made = {key: what for key, what, status, _ in told if status == 201}
            assert set(made) == {key for key, _ in asks}
            assert sum(doer.done.values()) == len(made)
            for key, what, status, body in told:
                assert status == (201 if what == made[key] else 422)
                answers = {str(one[3]) for one in told if one[:2] == (key, what) and one[2] == 201}
                assert status == 422 or answers == {str(body)}

    asyncio.run(work())
