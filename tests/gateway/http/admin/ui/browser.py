"""A whole gateway with something in it, and a real browser in front, for tests of the dashboard."""

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request, async_playwright
from pydantic import SecretStr

from gateway.db import TokenRepository
from tests.gateway.http.admin.ui.checks import IN_PAGE
from tests.gateway.stand import Stand, stand
from tests.servers.redis import RedisServer

ADMIN_KEY = "lam_admin_" + "k" * 40
MODEL = "gpt-4o-mini"
MARKUP = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>'
CHROMIUM = shutil.which("chromium")
NO_BROWSER = "no chromium on PATH; the dashboard was not looked at"
VIEWS: list[tuple[int, Literal["light", "dark"]]] = [
    (1440, "light"),
    (1440, "dark"),
    (390, "light"),
    (390, "dark"),
]
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


@dataclass
class Look:
    """A gateway and a browser; `errors` are what its console, its network and its policy complained of."""

    stand: Stand
    browser: Browser
    errors: list[str] = field(default_factory=list)

    @property
    def base(self) -> str:
        """Where the dashboard is."""
        return f"{self.stand.url}/admin/ui"

    async def context(self, **options: Any) -> BrowserContext:
        """A browser of somebody else: no cookies."""
        return await self.browser.new_context(**options)

    async def page(self, context: BrowserContext) -> Page:
        """A page whose complaints are kept."""
        page = await context.new_page()

        def said(message: ConsoleMessage) -> None:
            if message.type in {"error", "warning"}:
                self.errors.append(f"{page.url}: {message.text}")

        def failed(request: Request) -> None:
            if "ERR_ABORTED" not in (request.failure or ""):
                self.errors.append(f"{request.url}: {request.failure}")

        page.on("console", said)
        page.on("pageerror", lambda error: self.errors.append(f"{page.url}: {error}"))
        page.on("requestfailed", failed)
        return page

    async def signed_in(self, key: str = ADMIN_KEY, **options: Any) -> Page:
        """A page of whoever holds this key, on the overview."""
        page = await self.page(await self.context(**options))
        await page.goto(self.base)
        await page.get_by_label("key or token").fill(key)
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("heading", level=1).wait_for()
        return page

    async def token(self, role: str, tenants: list[str] | None = None, label: str = "test") -> tuple[str, str]:
        """A new token: (its id, itself)."""
        tokens = TokenRepository(self.stand.database)
        record, token = await tokens.create(label, role, tenants, None, "test", time.time())  # type: ignore[arg-type]
        return record.token_id, token


async def ask(it: Stand, key: str | None = None, questions: int = 24, **body: Any) -> None:
    """Requests that are answered by several layers."""
    async with it.client(**({} if key is None else {"key": key})) as client:
        for number in range(questions):
            content = f"Question {number % 5}"
            asked: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": content}], **body}
            await client.chat.completions.create(**asked, extra_headers={"x-lamina-cache-groups": "prices"})


@contextlib.asynccontextmanager
async def browsing(it: Stand) -> AsyncIterator[Look]:
    """A browser before a gateway."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=_FLAGS)
        try:
            yield Look(it, browser)
        finally:
            await browser.close()


@contextlib.asynccontextmanager
async def looking(home: Path, redis: RedisServer, **changes: Any) -> AsyncIterator[Look]:
    """A gateway that has answered something, and a browser."""
    models = ({"name": MODEL, "provider": "up", "aliases": ["small"]},)
    settings = {"admin_key": SecretStr(ADMIN_KEY), "models": models, **changes}
    async with stand(home, redis, **settings) as it, browsing(it) as look:
        yield look


async def seen_everywhere(page: Page, name: str, folder: str | None) -> dict[str, list[str]]:
    """What is wrong with a page as it stands, at every width and in every light; pictures of it, into a folder."""
    found: dict[str, list[str]] = {}
    for width, scheme in VIEWS:
        await _view(page, width, scheme)
        if wrong := await page.evaluate(IN_PAGE):
            found[f"{name}-{width}-{scheme}"] = wrong
    for width, scheme in VIEWS if folder else ():  # afterwards, since taking one leaves styles in the page
        await _view(page, width, scheme)
        await page.screenshot(path=f"{folder}/{name}-{width}-{scheme}.png", full_page=True, caret="initial")
    return found


async def _view(page: Page, width: int, scheme: Literal["light", "dark"]) -> None:
    await page.set_viewport_size({"width": width, "height": 900 if width > 1000 else 844})
    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")


async def until(true: Callable[[], Awaitable[bool]], seconds: float = 10.0) -> None:
    """Returns when it is true."""
    async with asyncio.timeout(seconds):
        while not await true():  # noqa: ASYNC110  (another process makes it true)
            await asyncio.sleep(0.05)
