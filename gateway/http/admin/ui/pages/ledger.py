"""The ledger: money by day, layer and model, which lever pays, and when a prompt cache does."""

import asyncio
from typing import Any

from gateway.http.admin.ui.asked import PageAsk, View
from gateway.http.admin.ui.pages.month import day_numbers

_DAYS = frozenset({"7", "30", "90"})


async def ledger(ask: PageAsk) -> View:
    """The page.

    Raises:
        ProblemError: the ledger does not say.
    """
    days = ask.query.get("days", "7")
    days = days if days in _DAYS else "7"
    wanted = ask.given("model", "tokens", "questions")
    told = await ask.api.must("ledger", {"days": days, "by": ["day"]})
    models, levers, use = await asyncio.gather(
        ask.api.get("ledger", {"days": days, "by": ["provider", "model"]}),
        ask.api.get("ledger/levers", {"days": days}),
        ask.api.get("ledger/cache-use", {"days": days}),
    )
    even = await ask.api.get("ledger/break-even", wanted) if wanted else None
    return View(
        "ledger.html",
        {
            "days": int(days),
            "told": {"data": told},
            "money_rows": _money(told),
            "by_model": models.data.get("groups", []),
            "levers": levers,
            "use": use,
            "even": even,
            "wanted": wanted,
        },
    )


def _money(told: dict[str, Any]) -> list[dict[str, Any]]:
    found = {one["group"]["day"]: one["totals"] for one in told["groups"]}
    return [
        {
            "at": at,
            "values": {
                "saved": float(found.get(day, {}).get("saved_usd") or 0),
                "spent": float(found.get(day, {}).get("cost_usd") or 0),
            },
        }
        for day, at in day_numbers(told["first_day"], told["last_day"]).items()
    ]
