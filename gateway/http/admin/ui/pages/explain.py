"""Why a request would, or would not, be answered from the cache; what is typed goes to the API alone."""

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson

from gateway.explain.sentences import sentence
from gateway.http.admin.ui.api import Problem
from gateway.http.admin.ui.asked import PageAsk, View
from gateway.http.admin.ui.pages.names import tenant_rows

_FIELDS = ("tenant", "model", "system", "question", "more", "controls")
_OWN = ("model", "messages")
_ANY = "*"


async def ask_explain(ask: PageAsk) -> View:
    """The form."""
    return await _page(ask, {**dict.fromkeys(_FIELDS, ""), **ask.given("tenant", "model")})


async def explain(ask: PageAsk) -> View:
    """What the cache would do with the request now; nothing is changed."""
    form = {name: ask.form.get(name, "").replace("\r\n", "\n") for name in _FIELDS}
    body = _body(form)
    if isinstance(body, Problem):
        return await _page(ask, form, problem=body)
    told = await ask.api.change("POST", "explain", body)
    return await _page(ask, form, problem=told.problem, found=None if told.problem else told.data)


def _body(form: Mapping[str, str]) -> dict[str, Any] | Problem:
    """Blanks in texts stay, since the key is made of them too."""
    more = _more(form["more"])
    if isinstance(more, Problem):
        return more
    headers = _headers(form["controls"])
    if isinstance(headers, Problem):
        return headers
    roles = [("system", form["system"]), ("user", form["question"])]
    messages = [{"role": role, "content": text} for role, text in roles if text or role == "user"]
    return {
        "tenant": form["tenant"].strip(),
        "request": {**more, "model": form["model"].strip(), "messages": messages},
        "headers": headers,
    }


def _more(text: str) -> dict[str, Any] | Problem:
    try:
        found = orjson.loads(text) if text.strip() else {}
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        return Problem(400, "no_object", "Other fields are one JSON object, such as {“temperature”: 0}.", "more")
    if any(name in found for name in _OWN):
        return Problem(400, "own_field", "The model and the messages have fields of their own here.", "more")
    return found


def _headers(text: str) -> dict[str, str] | Problem:
    headers: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.split("\n"))):
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            problem = "Cache controls are headers, one a line, such as Cache-Control: max-age=60."
            return Problem(400, "no_header", problem, "controls")
        headers[name.strip()] = value.strip()
    return headers


async def _page(
    ask: PageAsk,
    form: Mapping[str, str],
    *,
    problem: Problem | None = None,
    found: Mapping[str, Any] | None = None,
) -> View:
    rows, routes = await asyncio.gather(tenant_rows(ask), ask.api.get("routes"))
    names = [name for one in routes.items for name in (one["name"], *one["aliases"])]
    values = {
        "form": form,
        "tenants": rows,
        "models": [] if _ANY in names else names,
        "problem": problem,
        "found": found,
        "sentence": sentence,
    }
    return View("explain.html", values, problem.status if problem else 200)
