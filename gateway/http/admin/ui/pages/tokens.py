"""Administrators' tokens; one is shown once, in the answer to the form that made it."""

from typing import Any

from gateway.http.admin.ui.api import Problem, path_of
from gateway.http.admin.ui.asked import Go, PageAsk, View
from gateway.http.admin.ui.pages.audit import next_page
from gateway.http.admin.ui.pages.names import called, tenant_rows

_SHOWN = 200


async def tokens(ask: PageAsk) -> View:
    """All of them."""
    return await _all(ask)


async def new_token(ask: PageAsk) -> View:
    """Makes a token and shows it, this once."""
    tenant, ttl = ask.filled("tenant"), ask.filled("ttl")
    body = {
        "label": ask.filled("label"),
        "role": ask.filled("role"),
        "tenants": [tenant] if tenant else None,
        "ttl_s": float(ttl) if ttl.isdigit() else None,
    }
    told = await ask.api.change("POST", "tokens", body, ask.filled("once"))
    return await _all(ask, told.problem, None if told.problem else told.data)


async def revoke_token(ask: PageAsk) -> View | Go:
    """Revokes a token; its sessions end with it."""
    told = await ask.api.change("DELETE", path_of("tokens", ask.parts["token"]))
    return await _all(ask, told.problem) if told.problem else Go("/tokens", "token_revoked")


async def _all(ask: PageAsk, problem: Problem | None = None, made: dict[str, Any] | None = None) -> View:
    told, rows = await ask.api.get("tokens", {"limit": _SHOWN, **ask.given("after")}), await tenant_rows(ask)
    values = {"told": told, "tenants": rows, "names": called(rows), "problem": problem, "made": made}
    values["next"] = next_page("/tokens", {}, told.data)
    return View("tokens.html", values, problem.status if problem else 200)
