"""The last thirty days by day, out of the ledger, in the form that figures over time have."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from gateway.http.admin.ui.api import Told
from gateway.http.admin.ui.asked import PageAsk

DAYS = 30
_SAVING = ("exact", "semantic", "coalesced")


async def month_series(ask: PageAsk) -> Told:
    """As `GET /admin/v1/series` tells, with means in place of percentiles."""
    told = await ask.api.get("ledger", {"days": DAYS, "by": ["day", "layer"]})
    if told.problem is not None:
        return told
    layers = await ask.api.get("ledger", {"days": DAYS, "by": ["layer"]})
    days = day_numbers(told.data["first_day"], told.data["last_day"])
    points: dict[str, dict[str, Any]] = {day: {} for day in days}
    for one in told.data["groups"]:
        points.setdefault(one["group"]["day"], {})[one["group"]["layer"]] = _figures(one["totals"], one["group"])
    by_layer = {
        one["group"]["layer"]: _figures(one["totals"], one["group"]) for one in layers.data.get("groups", [])
    }
    total = _figures(told.data["totals"], {})
    total["saved_tokens"] = sum(one["saved_tokens"] for one in by_layer.values())
    return Told(
        {
            "points": [{"at": days.get(day, 0), "layers": found} for day, found in sorted(points.items())],
            "layers": by_layer,
            "total": total,
        }
    )


def day_numbers(first: str, last: str) -> dict[str, int]:
    """Each day from one to another, with its start in seconds since the epoch."""
    day, end = (datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (first, last))
    found = {}
    while day <= end:
        found[day.strftime("%Y-%m-%d")] = int(day.timestamp())
        day += timedelta(days=1)
    return found


def _figures(sums: Mapping[str, Any], group: Mapping[str, str]) -> dict[str, Any]:
    tokens = sums["prompt_tokens"] + sums["completion_tokens"]
    return {
        "requests": sums["requests"],
        "errors": sums["errors"],
        "mean_ms": sums["mean_ms"],
        "prompt_tokens": sums["prompt_tokens"],
        "completion_tokens": sums["completion_tokens"],
        "saved_tokens": tokens if group.get("layer") in _SAVING else 0,
        "cost_usd": sums["cost_usd"] or str(Decimal(0)),
        "saved_usd": sums["saved_usd"] or str(Decimal(0)),
    }
