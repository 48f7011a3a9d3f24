"""Writes the stack's Grafana dashboards, deploy/grafana/*.json, from the tables below; `--check` compares."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "deploy" / "grafana"
_SOURCE = {"type": "prometheus", "uid": "prometheus"}
_COLUMNS, _HEIGHT = 24, 8
_RANGE = "$__rate_interval"


@dataclass(frozen=True)
class Panel:
    """One panel: queries with the legend of each, in a unit of Grafana's."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    stacked: bool = False
    told: str = ""


def rate(metric: str, by: str, where: str = "") -> str:
    """Events a second."""
    rates = f"(rate({metric}{{{where}}}[{_RANGE}]))"
    return f"sum by ({by}) {rates}" if by else f"sum{rates}"


def share_of(part: str, whole: str, by: str = "") -> str:
    """One rate, by a label if one is named, as a share of another that is summed over everything."""
    joined = "/ on () group_left ()" if by else "/"
    return f"{rate(part, by)} {joined} {rate(whole, '')}"


def quantile(share: float, metric: str, by: str = "", where: str = "") -> str:
    """A quantile of a histogram."""
    groups = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({groups}) (rate({metric}_bucket{{{where}}}[{_RANGE}])))"


def quantiles(metric: str, by: str = "", where: str = "") -> tuple[tuple[str, str], ...]:
    """Median and 99th percentile."""
    name = f"{{{{{by}}}}} " if by else ""
    return tuple((quantile(share, metric, by, where), f"{name}p{share * 100:.0f}") for share in (0.5, 0.99))


LAMINA: dict[str, tuple[Panel, ...]] = {
    "Traffic": (
        Panel(
            "Requests by source",
            ((rate("lamina_request_seconds_count", "source"), "{{source}}"),),
            "reqps",
            stacked=True,
        ),
        Panel(
            "Share of requests by layer",
            ((share_of("lamina_request_seconds_count", "lamina_request_seconds_count", "source"), "{{source}}"),),
            "percentunit",
            stacked=True,
        ),
        Panel("Errors", ((rate("lamina_requests_total", "status", 'status=~"4..|5.."'), "{{status}}"),), "reqps"),
        Panel("Time to the last byte by source", quantiles("lamina_request_seconds", "source"), "s"),
        Panel("Time to first token by source", quantiles("lamina_ttft_seconds", "source"), "s"),
        Panel("Time of a look-up by layer", quantiles("lamina_cache_lookup_seconds", "layer"), "s"),
    ),
    "Layers": (
        Panel(
            "Look-ups by layer and result",
            ((rate("lamina_cache_lookups_total", "layer, result"), "{{layer}} {{result}}"),),
            "ops",
        ),
        Panel(
            "Misses by reason",
            ((rate("lamina_cache_lookups_total", "layer, reason", 'result="miss"'), "{{layer}} {{reason}}"),),
            "ops",
        ),
        Panel(
            "Writes by layer and result",
            ((rate("lamina_cache_writes_total", "layer, result, reason"), "{{layer}} {{result}} {{reason}}"),),
            "ops",
        ),
        Panel(
            "Flights: calls led and joined",
            (
                (rate("lamina_flights_total", "role"), "{{role}}"),
                ("sum(lamina_flights_in_progress)", "in progress"),
            ),
            "ops",
        ),
        Panel(
            "Time of credentials, writes and guards",
            (
                (quantile(0.99, "lamina_auth_seconds"), "credentials p99"),
                (quantile(0.99, "lamina_cache_write_seconds", "layer"), "{{layer}} write p99"),
                (quantile(0.99, "lamina_guard_seconds", "judged"), "guards of {{judged}} p99"),
            ),
            "s",
        ),
        Panel(
            "Verdicts of guards",
            ((rate("lamina_guard_verdicts_total", "guard, action"), "{{guard}} {{action}}"),),
            "ops",
        ),
    ),
    "Money and tokens": (
        Panel(
            "Saved in this range",
            (
                ("sum(increase(lamina_saved_usd_total[$__range]))", "saved"),
                ("sum(increase(lamina_spent_usd_total[$__range]))", "spent"),
            ),
            "currencyUSD",
            "stat",
        ),
        Panel(
            "Money an hour",
            (
                ("3600 * " + rate("lamina_saved_usd_total", "layer"), "saved by {{layer}}"),
                ("3600 * " + rate("lamina_spent_usd_total", "model"), "spent on {{model}}"),
            ),
            "currencyUSD",
        ),
        Panel(
            "Tokens no model had to process",
            ((rate("lamina_tokens_saved_total", "layer, kind"), "{{layer}} {{kind}}"),),
            "ops",
            stacked=True,
        ),
    ),
    "Error budget": (
        Panel(
            "Wrong answers in all, with 95 % interval",
            (
                ("max by (tenant_id, route) (lamina_budget_wrong_share)", "{{tenant_id}} {{route}}"),
                ("max by (tenant_id, route) (lamina_budget_wrong_share_low)", "{{tenant_id}} {{route}} low"),
                ("max by (tenant_id, route) (lamina_budget_wrong_share_high)", "{{tenant_id}} {{route}} high"),
                ("max by (tenant_id, route) (lamina_budget_max_wrong)", "{{tenant_id}} {{route}} allowed"),
            ),
            "percentunit",
            width=12,
        ),
        Panel(
            "Suspended",
            (("max by (tenant_id, route) (lamina_budget_suspended)", "{{tenant_id}} {{route}}"),),
            "bool",
            width=6,
        ),
        Panel(
            "Decisions of the budget",
            ((rate("lamina_budget_decisions_total", "reason"), "{{reason}}"),),
            "ops",
            width=6,
        ),
        Panel(
            "Comparisons with fresh answers",
            ((rate("lamina_budget_audits_total", "how, result"), "{{how}} {{result}}"),),
            "ops",
        ),
        Panel("Feedback of users", ((rate("lamina_feedback_total", "verdict"), "{{verdict}}"),), "ops"),
        Panel("Time of the semantic service by stage", quantiles("lamina_semantic_stage_seconds", "stage"), "s"),
    ),
    "Parts": (
        Panel("Parts that answer", (("min by (part) (lamina_part_up)", "{{part}}"),), "bool", "stat"),
        Panel("Breakers that are open", (("max by (part) (lamina_breaker_open)", "{{part}}"),), "bool", "stat"),
        Panel("Faults", ((rate("lamina_faults_total", "part, reason"), "{{part}} {{reason}}"),), "ops"),
        Panel(
            "Calls to providers",
            ((rate("lamina_upstream_calls_total", "provider, result"), "{{provider}} {{result}}"),),
            "reqps",
        ),
        Panel("Time of providers", quantiles("lamina_upstream_seconds", "provider"), "s"),
        Panel("Spans of traces", ((rate("lamina_spans_total", "result"), "{{result}}"),), "ops"),
        Panel(
            "Rows in the index",
            (("lamina_semantic_rows", "rows"), ("lamina_semantic_changes_behind", "changes behind")),
        ),
        Panel("Credentials judged", ((rate("lamina_auth_total", "result"), "{{result}}"),), "ops"),
        Panel("Replicas", (('sum by (job) (up{job=~"gateway|engine|semantic"})', "{{job}}"),)),
    ),
}

ENGINE: dict[str, tuple[Panel, ...]] = {
    "Latency": (
        Panel("Time to first token", quantiles("lamina_engine_time_to_first_token_seconds"), "s"),
        Panel("Time per output token", quantiles("lamina_engine_time_per_output_token_seconds"), "s"),
        Panel("Time in the queue", quantiles("lamina_engine_queue_time_seconds"), "s"),
        Panel("Running and waiting", (("lamina_engine_running", "running"), ("lamina_engine_waiting", "waiting"))),
        Panel(
            "Tokens a second",
            (
                (rate("lamina_engine_generation_tokens_total", ""), "generated"),
                (rate("lamina_engine_computed_tokens_total", "kind"), "computed, {{kind}}"),
            ),
            "ops",
        ),
        Panel("Time of a step", quantiles("lamina_engine_step_seconds", "kind"), "s"),
    ),
    "KV cache": (
        Panel(
            "Use",
            (("lamina_engine_kv_usage", "held"), ("lamina_engine_kv_fragmentation", "fragmentation")),
            "percentunit",
        ),
        Panel(
            "Blocks",
            (
                ("lamina_engine_kv_blocks_used", "held"),
                ("lamina_engine_kv_blocks_cached", "cached"),
                ("lamina_engine_kv_blocks_pinned", "pinned"),
                ("lamina_engine_kv_blocks_free", "free"),
            ),
            stacked=False,
        ),
        Panel("Evictions", ((rate("lamina_engine_kv_evictions_total", "cause"), "{{cause}}"),), "ops"),
        Panel(
            "Prompt tokens found cached",
            (
                (rate("lamina_engine_prefix_hit_tokens_total", "tier"), "{{tier}}"),
                (rate("lamina_engine_prefix_query_tokens_total", ""), "looked up"),
            ),
            "ops",
        ),
        Panel(
            "Share of prompt tokens reused",
            (
                (
                    share_of("lamina_engine_prefix_hit_tokens_total", "lamina_engine_prefix_query_tokens_total"),
                    "reused",
                ),
            ),
            "percentunit",
        ),
        Panel("Why prefixes miss", ((rate("lamina_engine_prefix_misses_total", "reason"), "{{reason}}"),), "ops"),
    ),
    "Trouble": (
        Panel("Failed steps", ((rate("lamina_engine_failed_steps_total", "fault"), "{{fault}}"),), "ops"),
        Panel("Preemptions", ((rate("lamina_engine_preemptions_total", "kind"), "{{kind}}"),), "ops"),
        Panel(
            "Refused", ((rate("lamina_engine_refused_total", "status, reason"), "{{status}} {{reason}}"),), "ops"
        ),
    ),
}


def dashboard(uid: str, title: str, rows: dict[str, tuple[Panel, ...]]) -> dict[str, Any]:
    """One dashboard, its panels laid out in rows."""
    panels: list[dict[str, Any]] = []
    top = 0
    for name, row in rows.items():
        place = {"h": 1, "w": _COLUMNS, "x": 0, "y": top}
        panels.append({"id": len(panels) + 1, "type": "row", "title": name, "collapsed": False, "gridPos": place})
        top, left = top + 1, 0
        for panel in row:
            if left + panel.width > _COLUMNS:
                top, left = top + _HEIGHT, 0
            place = {"h": _HEIGHT, "w": panel.width, "x": left, "y": top}
            panels.append(_panel(panel, len(panels) + 1, place))
            left += panel.width
        top += _HEIGHT
    return {
        "uid": uid,
        "title": title,
        "tags": ["lamina"],
        "timezone": "browser",
        "schemaVersion": 41,
        "version": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "editable": False,
        "graphTooltip": 1,
        "links": [{"type": "dashboards", "title": "Lamina", "tags": ["lamina"], "asDropdown": False}],
        "panels": panels,
    }


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    custom: dict[str, Any] = {"lineWidth": 1, "fillOpacity": 25 if panel.stacked else 5, "showPoints": "never"}
    custom["stacking"] = {"mode": "normal" if panel.stacked else "none"}
    stat = {"reduceOptions": {"calcs": ["lastNotNull"]}, "textMode": "value_and_name", "colorMode": "value"}
    lines = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.told,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "custom": custom if panel.kind == "timeseries" else {}},
            "overrides": [],
        },
        "options": stat if panel.kind == "stat" else lines,
        "targets": [
            {"refId": chr(ord("A") + position), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
            for position, (query, legend) in enumerate(panel.queries)
        ],
    }


def files() -> dict[Path, str]:
    """Every file's text."""
    made = {
        "lamina": dashboard("lamina", "Lamina", LAMINA),
        "engine": dashboard("lamina-engine", "Lamina engine", ENGINE),
    }
    return {FOLDER / f"{name}.json": json.dumps(one, indent=1) + "\n" for name, one in made.items()}


if __name__ == "__main__":
    late = [path for path, text in files().items() if not path.is_file() or path.read_text("utf-8") != text]
    if "--check" not in sys.argv:
        for path in late:
            path.write_text(files()[path], "utf-8")
    elif late:
        sys.exit(f"not as scripts/grafana.py makes them: {', '.join(path.name for path in late)}")
