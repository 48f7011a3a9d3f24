"""The engine: what is in its KV cache, what prefixes it found again, how long requests wait."""

import asyncio
from typing import Any

from gateway.http.admin.ui.asked import PageAsk, View
from gateway.telemetry.prefix_runs import in_order


async def engine(ask: PageAsk) -> View:
    """The page."""
    told, cached = await asyncio.gather(ask.api.get("engine"), _prefixes(ask))
    return View("engine.html", {"told": told, **cached})


async def engine_body(ask: PageAsk) -> View:
    """Its part that is asked for again and again."""
    return View("engine_body.html", {"told": await ask.api.get("engine")})


async def prefixes(ask: PageAsk) -> View:
    """Its tree per tenant, asked for now and then."""
    return View("engine_prefixes.html", await _prefixes(ask))


async def _prefixes(ask: PageAsk) -> dict[str, Any]:
    told = await ask.api.get("engine/prefixes")
    items = () if told.problem or not told.data["used"] else told.data["items"]
    return {"cached": told, "trees": [{**item, "rows": list(in_order(item["runs"]))} for item in items]}
