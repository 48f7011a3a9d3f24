"""Registering a version in a real browser: its impact is shown, then felt."""

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.gateway.http.admin.ui.browser import CHROMIUM, MARKUP, MODEL, NO_BROWSER, Look, looking, seen_everywhere
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER), pytest.mark.timeout(120)]

HELP = "You help the customers of Acme with their orders.\n\nBe brief & kind.\n"


async def fill(page: Page, name: str, version: str, **fields: str) -> None:
    """Fills in the form and asks for the preview."""
    await page.get_by_label("Name", exact=True).fill(name)
    await page.get_by_label("Version", exact=True).fill(version)
    if kind := fields.pop("kind", ""):
        await page.get_by_label("Kind").select_option(kind)
    details = page.locator("main details").last
    if await details.get_attribute("open") is None:
        await details.locator("summary").click()
    for field, value in fields.items():
        await page.locator(f"#f-{field}").fill(value)
    await page.get_by_role("button", name="Preview").click()


async def calls_for(look: Look) -> int:
    """How many calls of the model a request with the registered instruction makes: 0 or 1."""
    before = len(look.stand.upstream.calls)
    messages: Any = [{"role": "system", "content": HELP}, {"role": "user", "content": "Where is it?"}]
    async with look.stand.client() as client:
        await client.chat.completions.create(model=MODEL, messages=messages)
    return len(look.stand.upstream.calls) - before


async def test_a_version_is_registered_as_its_preview_said(
    tmp_path: Path, redis_server: RedisServer, pytestconfig: pytest.Config
) -> None:
    folder = pytestconfig.getoption("screenshots")
    async with looking(tmp_path, redis_server) as look:
        assert await calls_for(look) == 1
        tenant_id = await look.stand.tenant_id()
        page = await look.signed_in((await look.token("operator"))[1])
        await page.goto(f"{look.base}/versions?tenant={tenant_id}")
        await page.get_by_role("link", name="Register a version").click()
        await expect(page.get_by_label("Of", exact=True).locator("option")).to_have_text(["default"])
        await fill(page, "docs", "7", kind="knowledge_base", content="snapshot 4711")
        await expect(page.get_by_role("status")).to_contain_text("It is new.")
        await page.get_by_role("button", name="Register docs@7").click()
        await expect(page.get_by_role("status")).to_contain_text("The version was registered")
        await page.get_by_role("link", name="Register a version").click()
        await fill(page, "support", "1", kind="prompt", depends_on="docs", instructions=HELP)
        await page.get_by_role("button", name="Register support@1").click()
        await expect(page.get_by_role("table", name="Versions by name")).to_contain_text("support")
        assert await calls_for(look) == 0
        await page.get_by_role("link", name="docs", exact=True).click()
        await page.get_by_role("link", name="Register another version of docs").click()
        await expect(page.get_by_label("Kind")).to_have_value("knowledge_base")
        await fill(page, "docs", "8")
        await expect(page.get_by_role("status")).to_contain_text("It is new. It would replace docs@7.")
        await expect(page.locator(".figures")).to_contain_text("Exact layer1of 1 looked at would go")
        await expect(page.get_by_role("main")).to_contain_text("support@1")
        found = await seen_everywhere(page, "register-previewed", folder)
        assert await calls_for(look) == 0
        await page.get_by_role("button", name="Register docs@8").click()
        await expect(page.get_by_role("status")).to_contain_text("The version was registered")
        assert await calls_for(look) == 1
        await page.goto(f"{look.base}/versions/new?tenant={tenant_id}&name=docs")
        await fill(page, "docs", "8")
        await expect(page.get_by_role("status")).to_contain_text("Nothing would change.")
        assert await page.get_by_role("button", name="Register").count() == 0
        assert look.errors == []
        await fill(page, MARKUP, "1", instructions=MARKUP)
        await expect(page.get_by_role("alert")).to_contain_text("is no name")
        await expect(page.locator("#f-instructions")).to_have_value(MARKUP)
        assert await page.evaluate("window.hit") is None
        found |= await seen_everywhere(page, "register-refused", folder)
        assert found == {}
