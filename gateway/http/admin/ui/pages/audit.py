"""The audit."""

from urllib.parse import urlencode

from gateway.http.admin.ui.asked import PageAsk, View
from gateway.http.admin.ui.pages.names import called, tenant_rows

_SHOWN = 100


async def audit(ask: PageAsk) -> View:
    """The page."""
    wanted, rows = ask.given("tenant", "action", "actor"), await tenant_rows(ask)
    told = await ask.api.get("audit", {**wanted, **ask.given("after"), "limit": _SHOWN})
    return View(
        "audit.html",
        {
            "told": told,
            "tenants": rows,
            "names": called(rows),
            "wanted": wanted,
            "next": next_page("/audit", wanted, told.data),
        },
    )


def next_page(path: str, wanted: dict[str, str], data: dict[str, str | None]) -> str:
    """The address of what follows; empty at the end."""
    after = data.get("next")
    return f"{path}?{urlencode({**wanted, 'after': after})}" if after else ""
