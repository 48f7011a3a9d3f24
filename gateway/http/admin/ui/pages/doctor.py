"""The prefix doctor's findings."""

from gateway.http.admin.ui.asked import PageAsk, View
from gateway.http.admin.ui.pages.names import called, tenant_rows


async def doctor(ask: PageAsk) -> View:
    """The page."""
    wanted, rows = ask.given("tenant"), await tenant_rows(ask)
    told = await ask.api.get("doctor", wanted)
    return View("doctor.html", {"told": told, "tenants": rows, "names": called(rows), "wanted": wanted})
