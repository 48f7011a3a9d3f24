"""The dashboard in a real browser: every page, wide and narrow, light and dark, and what is done on them."""

import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from gateway.db import KeyRepository, TokenRepository
from tests.gateway.http.admin.ui.browser import (
    ADMIN_KEY,
    CHROMIUM,
    MODEL,
    NO_BROWSER,
    VIEWS,
    Look,
    ask,
    looking,
    until,
)
from tests.gateway.http.admin.ui.checks import IN_PAGE
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER), pytest.mark.timeout(300)]

PAGES = {
    "overview": "",
    "overview-day": "?span=day",
    "overview-month": "?span=month",
    "requests": "/requests",
    "ledger": "/ledger?days=7&model=claude-sonnet-4-5&tokens=50000&questions=1000",
    "doctor": "/doctor",
    "engine": "/engine",
    "entries": "/entries",
    "explain": "/explain",
    "purge": "/purge",
    "versions": "/versions",
    "register": "/versions/new",
    "tenants": "/tenants",
    "erasures": "/erasures",
    "routes": "/routes",
    "tokens": "/tokens",
    "audit": "/audit",
    "nowhere": "/nowhere",
}


@pytest_asyncio.fixture
async def look(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Look]:
    async with looking(tmp_path, redis_server) as one:
        yield one
    assert one.errors == []


async def fill(look: Look) -> None:
    """Gives the pages something to show."""
    await ask(look.stand)
    await ask(look.stand, await look.stand.tenant("acme"), 6)
    await look.stand.purge("tag", "nothing")
    await look.token("operator", ["acme"], "deploy hook")
    await look.stand.app.gateway.ledger.recent.write()  # type: ignore[union-attr]


async def test_every_page_is_clean_at_every_width_and_in_every_light(
    look: Look, pytestconfig: pytest.Config
) -> None:
    await fill(look)
    folder = pytestconfig.getoption("screenshots")
    found: dict[str, list[str]] = {}
    for width, scheme in VIEWS:
        size = {"width": width, "height": 900 if width > 1000 else 844}
        page = await look.signed_in(viewport=size, color_scheme=scheme)
        for name, path in PAGES.items():
            look.errors = [one for one in look.errors if "/nowhere" not in one]
            await page.goto(look.base + path)
            found[f"{name}-{width}-{scheme}"] = await page.evaluate(IN_PAGE)
            if folder:
                await page.screenshot(path=f"{folder}/{name}-{width}-{scheme}.png", full_page=True)
        await page.context.close()
    look.errors = [one for one in look.errors if "/nowhere" not in one]
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


async def test_what_was_asked_is_in_the_figures(look: Look) -> None:
    await fill(look)
    page = await look.signed_in()
    figures = page.locator(".figures")
    await expect(figures).to_contain_text("30")
    await expect(page.locator("canvas").first).to_be_visible()
    assert await page.locator("canvas").count() == 3
    await page.get_by_text("Show as a table").first.click()
    await expect(page.get_by_role("table", name="Who answered, times in UTC")).to_be_visible()
    await page.goto(f"{look.base}/requests?layer=exact")
    rows = page.get_by_role("table").locator("tbody tr")
    assert await rows.count() == 20
    assert "exact" in (await rows.first.inner_text())


async def test_the_feed_goes_on_by_itself_until_it_is_paused(look: Look) -> None:
    page = await look.signed_in()
    await page.goto(f"{look.base}/requests")
    await expect(page.get_by_text("Nothing has been asked yet")).to_be_visible()
    await ask(look.stand, questions=1)
    await expect(page.get_by_role("cell", name=MODEL, exact=True).first).to_be_visible(timeout=15_000)
    await page.get_by_role("button", name="Pause").click()
    await expect(page.get_by_role("status").filter(has_text="Paused")).to_be_visible()
    await page.wait_for_timeout(2_500)
    await ask(look.stand, questions=3)
    await page.wait_for_timeout(3_500)
    assert await page.get_by_role("cell", name=MODEL, exact=True).count() == 1
    await page.get_by_role("button", name="Pause").click()
    await expect(page.get_by_role("cell", name=MODEL, exact=True)).to_have_count(4, timeout=15_000)


async def test_a_purge_is_previewed_confirmed_and_felt(look: Look) -> None:
    await ask(look.stand, questions=3)
    page = await look.signed_in()
    await page.goto(f"{look.base}/purge")
    await page.get_by_label("By", exact=True).select_option("tag")
    await page.get_by_label("Value", exact=True).fill("prices")
    await page.get_by_label("Reason, for the audit").fill("new price list")
    await page.get_by_role("button", name="Preview").click()
    await expect(page.get_by_role("heading", name="This purge would take")).to_be_visible()
    await expect(page.locator(".figures")).to_contain_text("Exact layer")
    await expect(page.get_by_role("table", name="Some of them").locator("tbody tr")).to_have_count(3)
    calls = look.stand.upstream.calls
    await ask(look.stand, questions=3)
    assert len(look.stand.upstream.calls) == len(calls)
    await page.get_by_role("button", name="Purge 3 entries").click()
    await expect(page.get_by_role("status")).to_contain_text("Purged as number 1")
    await expect(page.get_by_role("table", name="Latest purges")).to_contain_text("new price list")
    before = len(look.stand.upstream.calls)
    await ask(look.stand, questions=3)
    assert len(look.stand.upstream.calls) == before + 3
    await page.goto(f"{look.base}/audit?action=purge")
    await expect(page.get_by_role("table", name="Changes, newest first")).to_contain_text("prices")


async def test_a_whole_tenant_is_purged_only_when_its_name_is_typed(look: Look) -> None:
    await ask(look.stand, questions=2)
    page = await look.signed_in()
    await page.goto(f"{look.base}/purge")
    await page.get_by_label("By", exact=True).select_option("tenant")
    await page.get_by_role("button", name="Preview").click()
    await page.get_by_label("Type its name to confirm").fill("another")
    look.errors.clear()
    await page.locator("#purge-now").click()
    await expect(page.get_by_role("alert")).to_contain_text("The name that you typed is another.")
    look.errors.clear()
    await page.get_by_role("button", name="Preview").click()
    await page.get_by_label("Type its name to confirm").fill("default")
    await page.locator("#purge-now").click()
    await expect(page.get_by_role("status")).to_contain_text("Purged as number")


async def test_an_entry_is_found_shown_and_deleted(look: Look) -> None:
    await ask(look.stand, questions=1)
    page = await look.signed_in()
    await page.goto(f"{look.base}/entries")
    await page.get_by_role("table", name="Entries").get_by_role("link").first.click()
    await expect(page.get_by_role("heading", level=1, name="Entry")).to_be_visible()
    await page.get_by_role("link", name="Show texts").click()
    await expect(page.locator("pre").last).to_contain_text("Hello from upstream")
    await page.get_by_role("button", name="Delete entry").click()
    await expect(page.get_by_role("status")).to_contain_text("The entry was deleted")
    await expect(page.get_by_text("There are no entries here")).to_be_visible()


async def test_a_version_shows_what_stands_on_it_and_is_retired(look: Look) -> None:
    url, headers = f"{look.stand.url}/admin/v1/versions", {"authorization": f"Bearer {ADMIN_KEY}"}
    page = await look.signed_in()
    for body in (
        {"name": "docs", "version": "7", "kind": "knowledge_base", "content": "a"},
        {"name": "support", "version": "1", "kind": "prompt", "content": "b", "depends_on": ["docs@7"]},
    ):
        assert (await page.request.post(url, data=body, headers=headers)).ok
    await page.goto(f"{look.base}/versions")
    await page.get_by_role("link", name="docs").click()
    await expect(page.get_by_role("heading", level=1, name="docs@7")).to_be_visible()
    await expect(page.get_by_role("main")).to_contain_text("support@1")
    await page.get_by_role("link", name="If its content changes").click()
    await page.get_by_role("link", name="If it is retired").click()
    await page.get_by_role("button", name="Retire docs@7").click()
    await expect(page.get_by_role("status")).to_contain_text("The version was retired")


async def test_a_key_is_shown_once_opens_and_is_revoked(look: Look) -> None:
    page = await look.signed_in()
    await page.goto(f"{look.base}/tenants")
    await page.get_by_label("Name", exact=True).fill("acme")
    await page.get_by_role("button", name="Make tenant").click()
    await page.get_by_label("Label of a new key").fill("backend")
    await page.get_by_role("button", name="Make key").click()
    key = (await page.locator("#made").inner_text()).strip()
    assert re.fullmatch(r"lam_\S{20,}", key)
    await ask(look.stand, key, 1)
    await page.goto(page.url.removesuffix("/keys"))
    assert key not in await page.content()
    await expect(page.get_by_role("table")).to_contain_text(f"…{key[-4:]}")
    await page.get_by_role("button", name="Revoke backend").click()
    await expect(page.get_by_role("status")).to_contain_text("The key was revoked")
    with pytest.raises(Exception, match="401"):
        await ask(look.stand, key, 1)


async def test_limits_modes_and_tokens_are_set(look: Look) -> None:
    page = await look.signed_in()
    tenant_id = await look.stand.tenant_id()
    await page.goto(f"{look.base}/tenants/{tenant_id}")
    await page.get_by_label("At a time").fill("7")
    await page.get_by_role("button", name="Set limits").click()
    await expect(page.get_by_role("status")).to_contain_text("The limits were set")
    await expect(page.get_by_label("At a time")).to_have_value("7")
    await page.goto(f"{look.base}/routes")
    await page.get_by_label(f"Mode of {MODEL}").first.select_option("observe")
    await page.get_by_role("button", name=f"Set mode of {MODEL}").click()
    await expect(page.get_by_role("table", name="Routes")).to_contain_text("served now: observe")
    await page.goto(f"{look.base}/tokens")
    await page.get_by_label("Label").fill("night shift")
    await page.get_by_role("button", name="Make token").click()
    token = (await page.locator("#made").inner_text()).strip()
    other = await look.signed_in(token)
    await expect(other.get_by_role("link", name="Tokens")).to_have_count(0)
    await expect(other.get_by_role("link", name="Purge")).to_have_count(0)


async def test_revoking_a_token_ends_its_session(look: Look) -> None:
    token_id, token = await look.token("operator")
    page = await look.signed_in(token)
    await expect(page.get_by_role("heading", level=1, name="Overview")).to_be_visible()
    await TokenRepository(look.stand.database).revoke(token_id, "test", time.time())
    await page.goto(f"{look.base}/requests")
    await expect(page.get_by_role("heading", level=1, name="Sign in")).to_be_visible()
    other = await look.signed_in((await look.token("reader"))[1])
    await other.goto(f"{look.base}/requests")
    await TokenRepository(look.stand.database).revoke(
        (await TokenRepository(look.stand.database).list())[-1].token_id, "test", time.time()
    )
    for record in await TokenRepository(look.stand.database).list():
        await TokenRepository(look.stand.database).revoke(record.token_id, "test", time.time())
    await other.wait_for_url("**/sign-in*", timeout=15_000)
    look.errors = [one for one in look.errors if "401" not in one]


async def test_it_is_used_with_the_keyboard_alone(look: Look) -> None:
    page = await look.page(await look.context(viewport={"width": 1440, "height": 900}))
    await page.goto(look.base)
    await page.keyboard.press("Tab")
    await page.keyboard.type(ADMIN_KEY)
    await page.keyboard.press("Enter")
    await page.get_by_role("heading", level=1, name="Overview").wait_for()
    await page.keyboard.press("Tab")
    assert await focused(page) == "Skip to the page"
    await page.keyboard.press("Enter")
    await until(lambda: page.evaluate("document.activeElement.id === 'main'"))
    await page.keyboard.press("Tab")
    assert await focused(page) == "Last hour"
    assert await page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    narrow = await look.signed_in(viewport={"width": 390, "height": 844})
    menu = narrow.get_by_role("button", name="Menu")
    await menu.press("Enter")
    await expect(menu).to_have_attribute("aria-expanded", "true")
    await narrow.get_by_role("link", name="Audit").press("Enter")
    await expect(narrow.get_by_role("heading", level=1, name="Audit")).to_be_visible()


async def focused(page: Page) -> str:
    """The text of what has the focus."""
    return str(await page.evaluate("document.activeElement.textContent.trim()"))


async def test_no_names_of_keys_are_left_in_the_browser(look: Look) -> None:
    page = await look.signed_in()
    for path in PAGES.values():
        if path != "/nowhere":
            await page.goto(look.base + path)
            assert ADMIN_KEY not in page.url + await page.content()
    assert await page.evaluate("document.cookie + localStorage.length") == "0"
    assert ADMIN_KEY not in await page.evaluate("JSON.stringify(sessionStorage)")
    keys = await KeyRepository(look.stand.database).list(await look.stand.tenant_id())
    assert keys
