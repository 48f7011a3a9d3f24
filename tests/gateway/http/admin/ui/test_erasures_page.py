"""Erasures in a real browser: confirmed by the tenant's name, followed to their proof, and how they fail."""

import time
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from gateway.db.erasing import BEGUN, DONE, FAILED, ErasingRepository, make_erasure_id
from tests.gateway.http.admin.ui.browser import CHROMIUM, NO_BROWSER, Look, ask, looking, seen_everywhere
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER), pytest.mark.timeout(120)]

USER = "mrs-quillfeather"


async def recorded(look: Look, action: str | None = None, **detail: Any) -> str:
    """An erasure of long ago, in the audit alone."""
    records, erasure = ErasingRepository(look.stand.database), make_erasure_id()
    tenant_id, begun = await look.stand.tenant_id(), ("somebody", time.time() - 3600)
    await records.record(BEGUN, tenant_id, erasure, begun, {"scope": "user", "shredded": False})
    if action is not None:
        await records.record(action, tenant_id, erasure, begun, detail)
    return erasure


def report(tenant_id: str) -> dict[str, Any]:
    """One that is not clean."""
    note = "the semantic service did not answer (timeout): it drops the rows when it is back"
    stores = [
        {"store": "redis", "looked_at": 12345, "found": 17, "removed": 15, "left": 2, "note": ""},
        {"store": "semantic_index", "looked_at": 0, "found": 0, "removed": 0, "left": None, "note": note},
    ]
    known = {"format": 2, "erasure_id": "E", "scope": "user", "tenant_id": tenant_id, "actor": "somebody"}
    times = {"begun_at": time.time() - 3600, "ended_at": time.time() - 3590, "auth_seq": 1, "purge_seq": 7}
    return {**known, **times, "announced": False, "keys_destroyed": [], "stores": stores, "complete": False}


async def ask_for(page: Page, user: str = "", whole: str = "") -> None:
    """Fills in the form and goes on to the confirmation."""
    await page.get_by_label("The whole tenant" if whole else "One user").check()
    await page.get_by_label("User", exact=True).fill(user)
    await page.get_by_role("button", name="Continue").click()


async def test_erasures_are_confirmed_followed_and_proven(
    tmp_path: Path, redis_server: RedisServer, pytestconfig: pytest.Config
) -> None:
    folder = pytestconfig.getoption("screenshots")
    async with looking(tmp_path, redis_server) as look:
        page = await look.signed_in()
        found = await of_a_user(look, page, folder)
        found |= await that_did_not_end_well(look, page, folder)
        assert look.errors == []
        assert found == {}


async def of_a_user(look: Look, page: Page, folder: str | None) -> dict[str, list[str]]:
    """One user is erased, once the tenant's name is typed."""
    await ask(look.stand, questions=3, user=USER)
    await page.goto(f"{look.base}/tenants/{await look.stand.tenant_id()}")
    await page.get_by_role("link", name="Erase").click()
    await ask_for(page, "   ")
    await expect(page.get_by_role("alert")).to_contain_text("Name the user, or choose the whole tenant.")
    await ask_for(page, whole="yes")
    await expect(page.get_by_role("main")).to_contain_text("default is shut out at once and for good")
    found = await seen_everywhere(page, "erase-tenant", folder)
    await page.get_by_role("link", name="Do not erase").click()
    await ask_for(page, USER)
    await page.locator("#f-confirm").fill("another")
    await page.locator("#erase-now").click()
    await expect(page.get_by_role("alert")).to_contain_text("The name that you typed is another.")
    assert await ErasingRepository(look.stand.database).begun(None, None, 9) == []
    found |= await seen_everywhere(page, "erase-user", folder)
    look.errors.clear()
    await page.locator("#f-confirm").fill("default")
    await page.locator("#erase-now").click()
    await expect(page.get_by_role("main")).to_contain_text("Running.")
    assert USER not in page.url + await page.content()
    found |= await seen_everywhere(page, "erasure-running", folder)
    await expect(page.get_by_text("A second look found every store clean.")).to_be_visible(timeout=30_000)
    await expect(page.locator("#erasure-said")).to_have_text("The erasure is done.")
    assert await page.locator("[data-live]").count() == 0
    await expect(page.get_by_role("main")).to_contain_text("signed and unchanged")
    await expect(page.get_by_role("table", name="What was done in each store")).to_contain_text("redis")
    before = len(look.stand.upstream.calls)
    await ask(look.stand, questions=1, user=USER)
    assert len(look.stand.upstream.calls) == before + 1
    return found


async def that_did_not_end_well(look: Look, page: Page, folder: str | None) -> dict[str, list[str]]:
    """Each says what happened, and what to do."""
    left = report(await look.stand.tenant_id())
    ids = {
        "interrupted": await recorded(look),
        "failed": await recorded(look, FAILED, why="StoreUnavailable: Redis did not answer"),
        "incomplete": await recorded(look, DONE, report=left, signature="00" * 32),
    }
    await page.goto(f"{look.base}/erasures")
    badges = await page.get_by_role("table", name="Erasures").locator(".badge").all_inner_texts()
    assert badges == ["incomplete", "failed", "interrupted", "done"]
    found = await seen_everywhere(page, "erasures-listed", folder)
    for state, told in (
        ("interrupted", "The worker that ran it is gone"),
        ("failed", "StoreUnavailable: Redis did not answer. Some of it may still be there."),
        ("incomplete", "Done, but something may be left."),
    ):
        await page.goto(f"{look.base}/erasures/{ids[state]}")
        await expect(page.locator(".notice").filter(has_text=told)).to_be_visible()
        found |= await seen_everywhere(page, f"erasure-{state}", folder)
    await expect(page.get_by_role("main")).to_contain_text("not as signed")
    await expect(page.get_by_role("table")).to_contain_text("unknown")
    await page.get_by_role("link", name="erase again").click()
    await expect(page.get_by_label("One user")).to_be_checked()
    return found
