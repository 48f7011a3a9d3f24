"""Entries: sought, shown, deleted."""

from gateway.http.admin.ui.api import Problem, Told, path_of
from gateway.http.admin.ui.asked import Go, PageAsk, View
from gateway.http.admin.ui.pages.audit import next_page
from gateway.http.admin.ui.pages.names import tenant_rows

_SHOWN = 50
_SOUGHT = ("tenant", "model", "route", "tag", "user", "session", "version", "age")


async def entries(ask: PageAsk) -> View | Go:
    """What answers to a search; without one, the first tenant's."""
    rows = await tenant_rows(ask)
    wanted = ask.given(*_SOUGHT)
    if rows and "tenant" not in wanted:
        first = next((row["id"] for row in rows if row["name"] == "default"), rows[0]["id"])
        wanted = {"tenant": first, **wanted}
    named = ask.query.get("id", "").strip().lower()
    if named and "tenant" in wanted:
        return Go(f"/{path_of('entries', wanted['tenant'], named)}")
    found = Told({})
    if "tenant" in wanted:
        found = await ask.api.get("entries", {**wanted, **ask.given("after"), "limit": _SHOWN})
    following = next_page("/entries", wanted, found.data)
    return View("entries.html", {"told": found, "tenants": rows, "wanted": wanted, "next": following})


async def entry(ask: PageAsk) -> View:
    """One of them; its texts when they are asked for."""
    return await _one(ask, None)


async def delete(ask: PageAsk) -> View | Go:
    """Deletes one."""
    tenant = ask.parts["tenant"]
    body = {"tenant": tenant, "kind": "entry", "value": ask.parts["entry"], "reason": ask.filled("reason")}
    told = await ask.api.change("POST", "purges", body)
    return (
        await _one(ask, told.problem)
        if told.problem
        else Go(f"/entries?tenant={path_of(tenant)}", "entry_deleted")
    )


async def _one(ask: PageAsk, problem: Problem | None) -> View:
    tenant = ask.parts["tenant"]
    text = ask.query.get("text") == "yes" and ask.can("operator")
    query = {"text": "true"} if text else {}
    said = await ask.api.must(path_of("entries", tenant, ask.parts["entry"]), query)
    values = {"said": said, "tenant": tenant, "text": text, "problem": problem}
    return View("entry.html", values, problem.status if problem else 200)
