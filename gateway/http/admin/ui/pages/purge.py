"""Purges: asked for, previewed, and made only from what the preview showed."""

import asyncio
from collections.abc import Mapping
from typing import Any

from gateway.http.admin.ui.api import Problem, path_of
from gateway.http.admin.ui.asked import PageAsk, View
from gateway.http.admin.ui.pages.names import called, tenant_rows

KINDS = (
    ("tag", "Tag"),
    ("entry", "Entry"),
    ("user", "User"),
    ("session", "Session"),
    ("model", "Model"),
    ("route", "Route"),
    ("version", "Version"),
    ("age", "Age"),
    ("meaning", "Meaning"),
    ("tenant", "Everything of a tenant"),
)
_FIELDS = ("tenant", "kind", "value", "text", "similarity", "count", "mode", "reason")
_SAMPLE = 10


async def ask_purge(ask: PageAsk) -> View:
    """The form."""
    return await _page(ask, {name: ask.query.get(name, "") for name in _FIELDS})


async def preview(ask: PageAsk) -> View:
    """What the purge would take; nothing is changed."""
    form = _form(ask)
    body = _body(form)
    if isinstance(body, Problem):
        return await _page(ask, form, problem=body)
    told = await ask.api.change("POST", "purges/preview", {**body, "sample": _SAMPLE, "show_text": True})
    return await _page(ask, form, problem=told.problem, preview=None if told.problem else told.data)


async def do_purge(ask: PageAsk) -> View:
    """Makes the purge that was previewed."""
    form = _form(ask)
    body = _body(form)
    if isinstance(body, Problem):
        return await _page(ask, form, problem=body)
    if form["kind"] == "tenant":
        owner = await ask.api.must(path_of("tenants", form["tenant"]))
        if ask.filled("confirm") != owner["name"]:
            return await _page(
                ask, form, problem=Problem(400, "not_confirmed", "The name that you typed is another.")
            )
    expect = {"expect": ask.filled("expect")} if form["kind"] == "meaning" else {}
    told = await ask.api.change("POST", "purges", {**body, **expect}, ask.filled("once"))
    if told.problem is not None:
        return await _page(ask, form, problem=told.problem)
    return await _page(ask, dict.fromkeys(_FIELDS, ""), done_row=told.data)


def _form(ask: PageAsk) -> dict[str, str]:
    return {name: ask.filled(name) for name in _FIELDS}


def _body(form: Mapping[str, str]) -> dict[str, Any] | Problem:
    body: dict[str, Any] = {name: form[name] for name in ("tenant", "kind", "reason")}
    body["mode"] = form["mode"] or "hard"
    if form["kind"] != "meaning":
        return {**body, "value": form["value"]}
    try:
        if form["similarity"]:
            body["similarity"] = float(form["similarity"])
        if form["count"]:
            body["count"] = int(form["count"])
    except ValueError:
        return Problem(400, "no_number", "Similarity and count are numbers.")
    return {**body, "text": form["text"]}


async def _page(
    ask: PageAsk,
    form: Mapping[str, str],
    *,
    problem: Problem | None = None,
    preview: Mapping[str, Any] | None = None,
    done_row: Mapping[str, Any] | None = None,
) -> View:
    rows, log = await asyncio.gather(tenant_rows(ask), ask.api.get("purges", {"limit": 20}))
    values = {
        "form": form,
        "kinds": KINDS,
        "tenants": rows,
        "names": called(rows),
        "log": log,
        "problem": problem,
        "preview": preview,
        "done_row": done_row,
    }
    return View("purge.html", values, problem.status if problem else 200)
