"""Requests as they are answered, with the reason for each."""

import asyncio
from typing import Any
from urllib.parse import urlencode

from gateway.http.admin.ui.asked import PageAsk, View
from gateway.http.admin.ui.pages.names import called, tenant_rows

_SHOWN = 100


async def feed(ask: PageAsk) -> View:
    """The page."""
    return View("feed.html", await _values(ask))


async def feed_rows(ask: PageAsk) -> View:
    """Its rows, which are asked for again and again."""
    return View("feed_rows.html", await _values(ask))


async def _values(ask: PageAsk) -> dict[str, Any]:
    wanted = ask.given("tenant", "layer", "model", "route", "failed")
    told, rows = await asyncio.gather(ask.api.get("feed", {**wanted, "limit": _SHOWN}), tenant_rows(ask))
    return {"told": told, "tenants": rows, "names": called(rows), "wanted": wanted, "query": urlencode(wanted)}
