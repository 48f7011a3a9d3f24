"""Registering a version: filled in, its impact shown, and made only from what was shown."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import orjson

from gateway.http.admin.ui.api import Problem
from gateway.http.admin.ui.asked import Go, PageAsk, View
from gateway.http.admin.ui.pages.names import tenant_rows
from gateway.http.admin.ui.pages.versions import versions_of

KINDS = ("prompt", "tools", "knowledge_base", "policy", "model", "adapter")
_LINE = ("tenant", "name", "version", "kind", "content", "beside", "mode")
_TEXT = ("depends_on", "instructions", "tools", "models")
_MOST = 1000


async def ask_register(ask: PageAsk) -> View:
    """The form; of a name that is known, as its live version is."""
    form = {**dict.fromkeys((*_LINE, *_TEXT), ""), **ask.given("tenant", "name")}
    if form["name"]:
        form |= await _like(ask, form["tenant"], form["name"])
    return await _page(ask, form)


async def preview(ask: PageAsk) -> View:
    """What the registration would come to, and take; nothing is changed."""
    form = _form(ask)
    body = _body(form)
    if isinstance(body, Problem):
        return await _page(ask, form, problem=body)
    told = await ask.api.change("POST", f"{versions_of(form['tenant'])}/preview", body)
    return await _page(ask, form, problem=told.problem, foreseen=None if told.problem else told.data)


async def register(ask: PageAsk) -> View | Go:
    """Registers what was previewed."""
    form = _form(ask)
    body = _body(form)
    if isinstance(body, Problem):
        return await _page(ask, form, problem=body)
    told = await ask.api.change("POST", versions_of(form["tenant"]), body, ask.filled("once"))
    if told.problem is not None:
        return await _page(ask, form, problem=told.problem)
    done = "version_known" if told.data["outcome"] == "unchanged" else "version_registered"
    here = urlencode({"tenant": form["tenant"]}) if form["tenant"] else ""
    return Go(f"/versions?{here}".rstrip("?"), done)


async def _like(ask: PageAsk, tenant: str, name: str) -> dict[str, str]:
    """What may be the same in the next version."""
    told = await ask.api.get(versions_of(tenant), {"limit": _MOST})
    mine = [one for one in told.items if one["name"] == name and one["tenant"] == (tenant or None)]
    last = next((one for one in reversed(mine) if one["live"]), mine[-1] if mine else None)
    if last is None:
        return {}
    return {name: "\n".join(last[name]) for name in ("depends_on", "models")} | {"kind": last["kind"]}


def _form(ask: PageAsk) -> dict[str, str]:
    texts = {name: ask.form.get(name, "").replace("\r\n", "\n") for name in _TEXT}
    return {name: ask.filled(name) for name in _LINE} | texts


def _body(form: Mapping[str, str]) -> dict[str, Any] | Problem:
    try:
        tools = orjson.loads(form["tools"]) if form["tools"].strip() else []
    except orjson.JSONDecodeError:
        tools = None
    if not isinstance(tools, list):
        return Problem(400, "no_list", "Tools are a JSON list, as requests carry them in “tools”.", "tools")
    return {
        **{name: form[name] for name in ("name", "version", "kind", "content")},
        "depends_on": _lines(form["depends_on"]),
        "instructions": [form["instructions"]] if form["instructions"].strip() else [],
        "tools": tools,
        "models": _lines(form["models"]),
        "beside": form["beside"] == "yes",
        "mode": form["mode"] or "hard",
    }


def _lines(text: str) -> list[str]:
    return [line for line in map(str.strip, text.split("\n")) if line]


async def _page(
    ask: PageAsk,
    form: Mapping[str, str],
    *,
    problem: Problem | None = None,
    foreseen: Mapping[str, Any] | None = None,
) -> View:
    rows = await tenant_rows(ask)
    values = {
        "form": form,
        "tenants": rows,
        "kinds": [(kind, kind.replace("_", " ")) for kind in KINDS],
        "problem": problem,
        "data": foreseen,
        "fields": (*_LINE, *_TEXT),
    }
    return View("register.html", values, problem.status if problem else 200)
