"""Tenants, their limits and their keys; a key is shown once, in the answer to the form that made it."""

import asyncio
from typing import Any

from gateway.http.admin.ui.api import Problem, path_of
from gateway.http.admin.ui.asked import Go, PageAsk, View
from gateway.http.admin.ui.pages.audit import next_page

_SHOWN = 200
_LIMITS = ("requests_per_minute", "tokens_per_day", "concurrent")


async def tenants(ask: PageAsk) -> View:
    """All of them."""
    return await _all(ask, None)


async def create_tenant(ask: PageAsk) -> View | Go:
    """Makes one."""
    told = await ask.api.change("POST", "tenants", {"name": ask.filled("name")}, ask.filled("once"))
    if told.problem is not None:
        return await _all(ask, told.problem)
    return Go(f"/{path_of('tenants', told.data['id'])}", "tenant_created")


async def tenant(ask: PageAsk) -> View:
    """One of them."""
    return await _one(ask)


async def disable(ask: PageAsk) -> View | Go:
    """Shuts one out, when its name was typed."""
    here = path_of("tenants", ask.parts["tenant"])
    owner = await ask.api.must(here)
    if ask.filled("confirm") != owner["name"]:
        return await _one(ask, Problem(400, "not_confirmed", "The name that you typed is another."))
    told = await ask.api.change("POST", f"{here}/disable")
    return await _one(ask, told.problem) if told.problem else Go(f"/{here}", "tenant_disabled")


async def set_limits(ask: PageAsk) -> View | Go:
    """Sets limits; an empty field lifts one."""
    here = path_of("tenants", ask.parts["tenant"])
    try:
        limits = {name: int(ask.filled(name)) if ask.filled(name) else None for name in _LIMITS}
    except ValueError:
        return await _one(ask, Problem(400, "no_number", "A limit is a whole number, or empty."))
    told = await ask.api.change("PUT", f"{here}/limits", limits)
    return await _one(ask, told.problem) if told.problem else Go(f"/{here}", "limits_set")


async def new_key(ask: PageAsk) -> View:
    """Makes a key and shows it, this once."""
    path = path_of("tenants", ask.parts["tenant"], "keys")
    told = await ask.api.change("POST", path, {"label": ask.filled("label")}, ask.filled("once"))
    return await _one(ask, told.problem, None if told.problem else told.data)


async def revoke_key(ask: PageAsk) -> View | Go:
    """Revokes a key."""
    here = path_of("tenants", ask.parts["tenant"])
    told = await ask.api.change("DELETE", f"{here}/{path_of('keys', ask.parts['key'])}")
    return await _one(ask, told.problem) if told.problem else Go(f"/{here}", "key_revoked")


async def _all(ask: PageAsk, problem: Problem | None) -> View:
    told = await ask.api.get("tenants", {"limit": _SHOWN, **ask.given("after")})
    values = {
        "told": told,
        "problem": problem,
        "name": ask.filled("name"),
        "next": next_page("/tenants", {}, told.data),
    }
    return View("tenants.html", values, problem.status if problem else 200)


async def _one(ask: PageAsk, problem: Problem | None = None, made: dict[str, Any] | None = None) -> View:
    here = path_of("tenants", ask.parts["tenant"])
    owner = await ask.api.must(here)
    keys, limits = await asyncio.gather(
        ask.api.get(f"{here}/keys", {"limit": 1000}), ask.api.get(f"{here}/limits")
    )
    values = {"owner": owner, "keys": keys, "limits": limits, "problem": problem, "made": made}
    return View("tenant.html", values, problem.status if problem else 200)
