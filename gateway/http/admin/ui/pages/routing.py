"""Routes, the modes in which they are served, and the guards."""

import asyncio

from gateway.http.admin.ui.api import Problem, path_of
from gateway.http.admin.ui.asked import Go, PageAsk, View
from gateway.http.admin.ui.pages.names import tenant_rows


async def routes(ask: PageAsk) -> View:
    """The page."""
    return await _page(ask, ask.query.get("tenant", ""))


async def set_mode(ask: PageAsk) -> View | Go:
    """Sets the mode of one route, for one tenant or for all; an empty one is as the settings say."""
    tenant, route, mode = ask.filled("tenant"), ask.filled("route"), ask.filled("mode")
    where = _modes_of(tenant)
    modes = dict((await ask.api.must(where))["modes"])
    modes.pop(route, None)
    if mode:
        modes[route] = mode
    told = await ask.api.change("PUT", where, {"modes": modes})
    if told.problem is not None:
        return await _page(ask, tenant, told.problem)
    return Go(f"/routes?{'tenant=' + path_of(tenant) if tenant else ''}".rstrip("?"), "mode_set")


async def _page(ask: PageAsk, tenant: str, problem: Problem | None = None) -> View:
    told, modes, guards, rows = await asyncio.gather(
        ask.api.get(f"{path_of('tenants', tenant)}/routes" if tenant else "routes"),
        ask.api.get(_modes_of(tenant)),
        ask.api.get("policies"),
        tenant_rows(ask),
    )
    values = {
        "told": told,
        "modes": modes.data.get("modes", {}),
        "guards": guards,
        "tenants": rows,
        "tenant": tenant,
        "may_set": ask.can("operator", not tenant),
        "problem": problem,
    }
    return View("routes.html", values, problem.status if problem else 200)


def _modes_of(tenant: str) -> str:
    return f"{path_of('tenants', tenant)}/modes" if tenant else "modes"
