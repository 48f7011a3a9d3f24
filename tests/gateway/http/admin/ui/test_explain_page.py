"""Explanations in a real browser: every layer with its reason, errors that are told, and no word typed is kept."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Page, expect
from pydantic import SecretStr

from policies.nomination import Candidate
from tests.gateway.http.admin.ui.browser import (
    ADMIN_KEY,
    CHROMIUM,
    NO_BROWSER,
    Look,
    browsing,
    seen_everywhere,
)
from tests.gateway.semantic_stand import PARAPHRASE, QUESTION, Meaning, meaning
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER), pytest.mark.timeout(120)]

SECRET = "May Mrs Quillfeather see ward 7?"
OTHER = "How do I reset 12 passwords?"


@contextlib.asynccontextmanager
async def by_meaning(home: Path, redis: RedisServer) -> AsyncIterator[tuple[Look, Meaning]]:
    """A gateway that compares meaning, with guards, and a browser."""
    changes = {"admin_key": SecretStr(ADMIN_KEY), "guards": {"enabled": True}}
    async with meaning(home, redis, **changes) as one, browsing(one.it) as look:
        yield look, one
    assert look.errors == []


async def explain(page: Page, question: str, **fields: str) -> None:
    """Fills in the form and sends it."""
    await page.get_by_label("Question", exact=True).fill(question)
    if "more" in fields or "controls" in fields:
        details = page.locator("main details").last
        if await details.get_attribute("open") is None:
            await details.locator("summary").click()
    for name, value in fields.items():
        await page.locator(f"#f-{name}").fill(value)
    await page.get_by_role("button", name="Explain").click()


async def test_a_request_is_explained_layer_by_layer(
    tmp_path: Path, redis_server: RedisServer, pytestconfig: pytest.Config, capfd: pytest.CaptureFixture[str]
) -> None:
    async with by_meaning(tmp_path, redis_server) as (look, it):
        found = await explained(look, it, pytestconfig.getoption("screenshots"))
    logged = "".join(capfd.readouterr())
    assert "ui.explain" in logged
    assert "Quillfeather" not in logged
    assert found == {}


async def explained(look: Look, it: Meaning, folder: str | None) -> dict[str, list[str]]:
    """Goes through every way to be explained; tells what is wrong with how it looks."""
    await it.taught()
    await it.taught(OTHER)
    it.service.told = (Candidate(1, 0.97, None, 0.98), Candidate(2, 0.91, "number", None))
    page = await look.signed_in()
    await page.goto(f"{look.base}/explain")
    await explain(page, QUESTION)
    layers = page.get_by_role("table", name="Layers in the order")
    await expect(page.get_by_role("heading", level=2).first).to_have_text("hit exact")
    await expect(layers).to_contain_text("The very same request is stored, alive and allowed.")
    await expect(layers).to_contain_text("The exact layer decided.")
    await page.get_by_text("parts, as digests").click()
    await expect(page.get_by_role("table", name="Two requests have one key")).to_contain_text("question")
    await explain(page, PARAPHRASE)
    await expect(page.get_by_role("heading", level=2).first).to_have_text("hit semantic")
    candidates = page.get_by_role("table", name="Candidates")
    await expect(candidates).to_contain_text(QUESTION)
    await expect(candidates).to_contain_text("0.970")
    await expect(candidates).to_contain_text("0.980")
    await expect(candidates).to_contain_text("hangs on: veto number.")
    await expect(candidates).to_contain_text("refused")
    found = await seen_everywhere(page, "explained", folder)
    await explain(page, f"{SECRET} My password is Tr0ub4dor&3.", more='{"temperature": 0}', system="Be brief.")
    await expect(page.get_by_role("table", name="Guards that speak")).to_contain_text("secret said")
    await expect(layers).to_contain_text("A guard keeps this question away from the semantic layer.")
    found |= await seen_everywhere(page, "explain-guarded", folder)
    await explain(page, SECRET, controls="Cache-Control: no-store\nx-lamina-cache-mode: off")
    await expect(page.get_by_role("heading", level=2).first).to_have_text("bypass")
    assert page.url == f"{look.base}/explain"
    it.service.told, it.service.status = None, 503
    await page.goto(f"{look.base}/explain")
    assert "Quillfeather" not in await page.content()
    assert "Quillfeather" not in await page.evaluate("JSON.stringify([localStorage, sessionStorage])")
    await explain(page, SECRET)
    await expect(layers).to_contain_text("The semantic service answered with an error.")
    found |= await seen_everywhere(page, "explain-down", folder)
    await page.evaluate("document.querySelector('#f-model').add(new Option('gpt-0', 'gpt-0', true, true))")
    await explain(page, SECRET)
    await expect(page.get_by_role("alert")).to_contain_text("No model is called 'gpt-0'.")
    await expect(page.get_by_label("Question", exact=True)).to_have_value(SECRET)
    await expect(page.get_by_label("Model")).to_have_attribute("aria-invalid", "true")
    found |= await seen_everywhere(page, "explain-unknown", folder)
    look.errors = [one for one in look.errors if "404" not in one]
    return found
