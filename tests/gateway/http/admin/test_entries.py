"""Entries by the API: sought in both layers, shown without text but to operators who ask, deleted."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from tests.gateway.http.admin.whole import ADMIN, Office
from tests.gateway.semantic_stand import QUESTION, Meaning, meaning
from tests.servers.redis import RedisServer


@pytest.fixture
async def near(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Meaning]:
    async with meaning(tmp_path, redis_server, admin_key=SecretStr(ADMIN)) as it:
        yield it


async def found(desk: Office, query: str = "", limit: int = 100) -> list[tuple[str, str]]:
    """(layer, id) of every page."""
    items: list[tuple[str, str]] = []
    after: str | None = ""
    while after is not None:
        page = await desk.ask("GET", f"/entries?tenant=default&limit={limit}{query}{after and '&after=' + after}")
        assert page.status == 200, page.body
        items += [(one["layer"], one["id"]) for one in page.body["items"]]
        after = page.body["next"]
    return sorted(items)


async def test_entries_are_sought_by_every_name(near: Meaning) -> None:
    desk = Office(near.it)
    tagged = (await near.taught(QUESTION, ("x-lamina-cache-groups", "help"), user="ann"))["x-lamina-cache-id"]
    plain = (await near.ask("hello", model="plain"))["x-lamina-cache-id"]
    both = [("exact", tagged), ("semantic", tagged)]
    assert await found(desk) == sorted([*both, ("exact", plain)])
    for query in ("&tag=help", "&user=ann", "&route=m", "&model=up/m", "&tag=help&user=ann"):
        assert await found(desk, query) == both, query
    assert await found(desk, "&route=plain") == [("exact", plain)]
    for query in ("&tag=nothing", "&user=bob", "&tag=help&user=bob", "&session=s", "&version=kb=1", "&age=1h"):
        assert await found(desk, query) == [], query
    assert await found(desk, "&age=0s") == sorted([*both, ("exact", plain)])
    assert (await desk.ask("GET", "/entries?tenant=default&age=soon")).body["param"] == "age"
    assert (await desk.ask("GET", "/entries?tenant=default&after=x")).body["param"] == "after"
    for bad in ("x.1", "semantic.-1", f"semantic.{'9' * 19}", f"exact.{'9' * 21}"):
        assert (await desk.ask("GET", f"/entries?tenant=default&after={bad}")).body["param"] == "after", bad
    assert (await desk.ask("GET", "/entries?tenant=nobody")).status == 404


async def test_many_entries_come_in_pages_and_dead_ones_do_not(near: Meaning) -> None:
    desk = Office(near.it)
    ids = {(await near.ask(f"word {number}", model="plain"))["x-lamina-cache-id"] for number in range(30)}
    assert {id_ for _, id_ in await found(desk, limit=3)} == ids
    await near.it.purge()
    assert await found(desk) == []


async def test_one_entry_is_shown_and_its_text_to_operators_who_ask(near: Meaning) -> None:
    desk = Office(near.it)
    id_ = (await near.taught())["x-lamina-cache-id"]
    told = await desk.ask("GET", f"/entries/default/{id_}")
    assert [(one["layer"], one["purged"], one["state"]) for one in told.body["entries"]] == [
        ("exact", None, "live"),
        ("semantic", None, "live"),
    ]
    assert "Hello" not in str(told.body)
    assert (told.body["question"], told.body["answer"]) == (None, None)
    text = await desk.ask("GET", f"/entries/default/{id_}?text=true")
    assert text.body["question"] == QUESTION
    assert text.body["answer"][0]["content"] == "Hello from upstream"
    reader = await desk.token("reader")
    assert (await desk.ask("GET", f"/entries/default/{id_}", key=reader)).status == 200
    assert (await desk.ask("GET", f"/entries/default/{id_}?text=true", key=reader)).status == 403
    await near.it.tenant("other")
    for path in (f"/entries/other/{id_}", f"/entries/default/{'0' * 64}", "/entries/default/abc"):
        assert (await desk.ask("GET", path)).status == 404


async def test_a_deleted_entry_is_not_served_and_shown_as_purged(near: Meaning) -> None:
    desk = Office(near.it)
    id_ = (await near.taught())["x-lamina-cache-id"]
    told = await desk.ask("DELETE", f"/entries/default/{id_}?reason=wrong")
    assert (told.status, told.body["kind"], told.body["value"], told.body["reason"]) == (
        200,
        "entry",
        id_,
        "wrong",
    )
    shown = await desk.ask("GET", f"/entries/default/{id_}")
    assert {one["purged"] for one in shown.body["entries"]} == {"hard"}
    assert "hit" not in (await near.ask(QUESTION))["cache-status"]
