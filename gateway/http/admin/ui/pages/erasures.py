"""Erasures: asked for, confirmed by the tenant's name, followed while they run, and their proof."""

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson

from gateway.http.admin.ui.api import Problem, path_of
from gateway.http.admin.ui.asked import Go, PageAsk, View
from gateway.http.admin.ui.pages.audit import next_page
from gateway.http.admin.ui.pages.names import called, tenant_rows

_SHOWN = 50
_FIELDS = ("tenant", "scope", "user", "destroy_key")
_WHOLE = "tenant"


async def erasures(ask: PageAsk) -> View:
    """All of them, and the form for another."""
    return await _all(ask, {**dict.fromkeys(_FIELDS, ""), **ask.given("tenant", "scope")})


async def confirm(ask: PageAsk) -> View:
    """What the erasure would take; nothing is begun."""
    form = _form(ask)
    problem = _problem(form)
    return await _all(ask, form, problem) if problem else await _confirm(ask, form)


async def begin(ask: PageAsk) -> View | Go:
    """Begins what was confirmed by the tenant's name."""
    form = _form(ask)
    if problem := _problem(form):
        return await _all(ask, form, problem)
    owner = await ask.api.must(path_of("tenants", form["tenant"]))
    if ask.filled("confirm") != owner["name"]:
        return await _confirm(ask, form, Problem(400, "not_confirmed", "The name that you typed is another."))
    body: dict[str, Any] = {"tenant": owner["id"]}
    if form["scope"] != _WHOLE:
        body |= {"user": form["user"], "destroy_key": form["destroy_key"] == "yes"}
    told = await ask.api.change("POST", "erasures", body, ask.filled("once"))
    if told.problem is not None:
        return await _confirm(ask, form, told.problem)
    return Go(f"/{path_of('erasures', told.data['id'])}")


async def erasure(ask: PageAsk) -> View:
    """One of them, with its proof."""
    return View("erasure.html", await _one(ask))


async def erasure_body(ask: PageAsk) -> View:
    """Its part that is asked for again while it runs."""
    return View("erasure_body.html", {**await _one(ask), "again": True})


async def _one(ask: PageAsk) -> dict[str, Any]:
    one, rows = await asyncio.gather(ask.api.must(path_of("erasures", ask.parts["erasure"])), tenant_rows(ask))
    report = one["report"]
    signed = {"report": report, "signature": one["signature"]}
    proof = "" if report is None else orjson.dumps(signed, option=orjson.OPT_INDENT_2).decode()
    return {"one": one, "report": report, "names": called(rows), "proof": proof}


def _form(ask: PageAsk) -> dict[str, str]:
    return {name: ask.filled(name) for name in _FIELDS}


def _problem(form: Mapping[str, str]) -> Problem | None:
    """An empty user never means the whole tenant."""
    if form["scope"] not in ("user", _WHOLE):
        return Problem(400, "no_scope", "Choose between one user and the whole tenant.", "scope")
    if form["scope"] == "user" and not form["user"]:
        return Problem(400, "no_user", "Name the user, or choose the whole tenant.", "user")
    return None


async def _confirm(ask: PageAsk, form: Mapping[str, str], problem: Problem | None = None) -> View:
    owner = await ask.api.must(path_of("tenants", form["tenant"]))
    values = {"form": form, "owner": owner, "whole": form["scope"] == _WHOLE, "problem": problem}
    return View("erase.html", values, problem.status if problem else 200)


async def _all(ask: PageAsk, form: Mapping[str, str], problem: Problem | None = None) -> View:
    listed = ask.api.get("erasures", {"limit": _SHOWN, **ask.given("after")})
    told, rows = await asyncio.gather(listed, tenant_rows(ask))
    values = {"form": form, "told": told, "tenants": rows, "names": called(rows), "problem": problem}
    values["next"] = next_page("/erasures", {}, told.data)
    return View("erasures.html", values, problem.status if problem else 200)
