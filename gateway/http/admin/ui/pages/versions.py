"""Versions of prompts, tools, knowledge bases and models, what stands on them, and what a change would take."""

from urllib.parse import urlencode

from gateway.http.admin.ui.api import Problem, Told, path_of
from gateway.http.admin.ui.asked import Go, PageAsk, View
from gateway.http.admin.ui.pages.audit import next_page
from gateway.http.admin.ui.pages.names import called, tenant_rows

_SHOWN = 200
_CHANGES = ("retire", "content")


async def versions(ask: PageAsk) -> View:
    """Those of a tenant, with everybody's; those of everybody where no tenant is chosen."""
    rows, tenant = await tenant_rows(ask), ask.query.get("tenant", "")
    if not tenant and not ask.caller.everywhere and rows:
        tenant = rows[0]["id"]
    told = await ask.api.get(versions_of(tenant), {"limit": _SHOWN, **ask.given("after")})
    wanted = {"tenant": tenant} if tenant else {}
    values = {"told": told, "tenants": rows, "names": called(rows), "tenant": tenant}
    values["may_register"] = may_change(ask, tenant)
    return View("versions.html", {**values, "next": next_page("/versions", wanted, told.data)})


async def impact(ask: PageAsk) -> View:
    """What a change of one would take; nothing is changed."""
    return await _impact(ask, ask.query.get("tenant", ""), None)


async def retire(ask: PageAsk) -> View | Go:
    """Retires one, as its impact was shown."""
    tenant, version = ask.filled("tenant"), ask.parts["version"]
    told = await ask.api.change("DELETE", f"{versions_of(tenant)}/{path_of(version)}")
    if told.problem is not None:
        return await _impact(ask, tenant, told.problem)
    return Go(f"/versions?{urlencode({'tenant': tenant})}" if tenant else "/versions", "version_retired")


async def _impact(ask: PageAsk, tenant: str, problem: Problem | None) -> View:
    version, change = ask.parts["version"], ask.query.get("change", "retire")
    change = change if change in _CHANGES else "retire"
    found: Told = await ask.api.get(
        f"dependencies/{path_of(version)}/impact", {"tenant": tenant, "change": change}
    )
    values = {
        "version": version,
        "tenant": tenant,
        "change": change,
        "told": found,
        "problem": problem,
        "name": version.partition("@")[0],
        "may_change": may_change(ask, tenant),
        "here": urlencode({"tenant": tenant}) if tenant else "",
    }
    status = next((one.status for one in (problem, found.problem) if one is not None), 200)
    return View("impact.html", values, status)


def may_change(ask: PageAsk, tenant: str) -> bool:
    """Whether the caller may change versions of a tenant, or of all when none is named."""
    return ask.can("operator") if tenant else ask.can("admin", everywhere=True)


def versions_of(tenant: str) -> str:
    """The API's path of a tenant's versions, or of everybody's."""
    return f"{path_of('tenants', tenant)}/versions" if tenant else "versions"
