"""The overview: who answered, how fast, what it saved, what is down, and where the error budgets stand."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from gateway.http.admin.ui.api import Told
from gateway.http.admin.ui.asked import PageAsk, View
from gateway.http.admin.ui.pages.month import month_series
from gateway.http.admin.ui.pages.names import called, tenant_rows

LAYERS = ("exact", "semantic", "coalesced", "model", "none")
_SHOWN = {"none": "no answer"}
_HITS = ("exact", "semantic", "coalesced")
_PARTS = {"redis": "Redis", "database": "The database", "engine": "The engine", "semantic": "The semantic service"}


async def overview(ask: PageAsk) -> View:
    """The page."""
    return View("overview.html", await _values(ask))


async def overview_body(ask: PageAsk) -> View:
    """Its part that is asked for again and again."""
    return View("overview_body.html", await _values(ask))


async def _values(ask: PageAsk) -> dict[str, Any]:
    span = ask.query.get("span", "hour")
    span = span if span in {"hour", "day", "month"} else "hour"
    month = span == "month"
    told, budgets, readiness, rows = await asyncio.gather(
        month_series(ask) if month else ask.api.get("series", {"span": span}),
        ask.api.get("budget"),
        ask.api.get("readiness"),
        tenant_rows(ask),
    )
    states = readiness.data.get("parts", {})
    return {
        "span": span,
        "series": told,
        "budgets": budgets,
        "budget_lines": budgets.data.get("budgets", []),
        "readiness": readiness,
        "down": [_PARTS.get(name, name) for name, state in states.items() if not state["up"]],
        "names": called(rows),
        **({} if told.problem else _curves(told, "mean_ms" if month else "p95_ms")),
    }


def _curves(told: Told, latency: str) -> dict[str, Any]:
    points, layers = told.data["points"], told.data["layers"]
    seen = [name for name in LAYERS if name in layers]
    asked = sum(layers[name]["requests"] for name in seen)
    return {
        "sums": _sums(told.data),
        "layers": [{"layer": name, **_row(layers[name])} for name in seen],
        "shares": _series(seen, lambda name: f"{layers[name]['requests'] / asked:.0%}" if asked else ""),
        "share_rows": [{"at": point["at"], "values": _shares(point["layers"], seen)} for point in points],
        "counts": _series(seen, lambda name: f"{layers[name]['requests']:,}"),
        "count_rows": [_at(point, seen, "requests", nothing=0) for point in points],
        "latencies": _series(seen, lambda _: ""),
        "latency_rows": [_at(point, seen, latency, nothing=None) for point in points],
    }


def _sums(data: Mapping[str, Any]) -> dict[str, Any]:
    every = data["total"]
    return {
        **every,
        "hits": sum(one["requests"] for name, one in data["layers"].items() if name in _HITS),
        "tokens": every["prompt_tokens"] + every["completion_tokens"],
    }


def _row(figures: Mapping[str, Any]) -> dict[str, Any]:
    saved = figures["saved_usd"]
    return {
        "requests": figures["requests"],
        "middle_ms": figures.get("p50_ms", figures["mean_ms"]),
        "p95_ms": figures.get("p95_ms"),
        "saved_usd": saved if Decimal(saved) != 0 else None,
    }


def _series(names: Sequence[str], note: Callable[[str], str]) -> list[tuple[str, str, str, str]]:
    return [(name, _SHOWN.get(name, name), name, note(name)) for name in names]


def _shares(layers: Mapping[str, Any], seen: Sequence[str]) -> dict[str, float | None]:
    asked = sum(one["requests"] for one in layers.values())
    if not asked:
        return dict.fromkeys(seen)
    return {name: layers[name]["requests"] / asked if name in layers else 0.0 for name in seen}


def _at(point: Mapping[str, Any], seen: Sequence[str], figure: str, *, nothing: float | None) -> dict[str, Any]:
    layers = point["layers"]
    values = {name: layers[name].get(figure) if name in layers else nothing for name in seen}
    return {"at": point["at"], "values": values}
