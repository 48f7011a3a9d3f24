"""The engine: what is in its KV cache, what prefixes it found again, how long requests wait."""

from gateway.http.admin.ui.asked import PageAsk, View


async def engine(ask: PageAsk) -> View:
    """The page."""
    return View("engine.html", {"told": await ask.api.get("engine")})


async def engine_body(ask: PageAsk) -> View:
    """Its part that is asked for again and again."""
    return View("engine_body.html", {"told": await ask.api.get("engine")})
