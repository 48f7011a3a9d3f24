"""Alerts and dashboards: valid, and about metrics and labels that the code exports."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml

from tests.deploy import compose
from tests.deploy.compose import ROOT
from tests.deploy.exposition import exported

DEPLOY = ROOT / "deploy"
RULES = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text("utf-8"))
PROMETHEUS = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text("utf-8"))
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
DASHBOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
EXPORTED = exported()


def _queries() -> Iterator[tuple[str, str]]:
    for alert in ALERTS:
        yield alert["alert"], alert["expr"]
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text("utf-8"))["panels"]:
            for target in panel.get("targets", ()):
                yield f"{path.stem}: {panel['title']} {target['refId']}", target["expr"]


QUERIES = dict(_queries())


def _parsed(query: str) -> Any:
    return promql_parser.parse(query.replace("$__rate_interval", "1m").replace("$__range", "1h"))


def _nodes(node: Any) -> Iterator[Any]:
    """A query's tree, outermost first."""
    if isinstance(node, list | tuple):
        for one in node:
            yield from _nodes(one)
    elif type(node).__module__ == promql_parser.__name__:
        yield node
        for name in ("lhs", "rhs", "expr", "args", "vector_selector", "param"):
            yield from _nodes(getattr(node, name, None))


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_is_about_what_the_code_exports(name: str) -> None:
    labels: set[str] = set()
    selectors = [node for node in _nodes(_parsed(QUERIES[name])) if isinstance(node, promql_parser.VectorSelector)]
    assert selectors
    for selector in selectors:
        assert selector.name in EXPORTED, f"nothing exports {selector.name}"
        labels |= EXPORTED[selector.name]
        matched = {matcher.name for matcher in selector.matchers.matchers}
        assert matched <= EXPORTED[selector.name], f"{selector.name} has no such label"
    for node in _nodes(_parsed(QUERIES[name])):
        modifier = getattr(node, "modifier", None)
        if isinstance(node, promql_parser.AggregateExpr) and modifier is not None:
            assert set(modifier.labels) <= labels, f"grouped by a label that is nowhere: {modifier.labels}"


@pytest.mark.parametrize("name", QUERIES)
def test_a_counter_is_never_read_without_a_rate(name: str) -> None:
    nodes = list(_nodes(_parsed(QUERIES[name])))
    in_range = [node.vector_selector for node in nodes if isinstance(node, promql_parser.MatrixSelector)]
    counted = {selector.name for selector in in_range}
    for node in nodes:
        if isinstance(node, promql_parser.VectorSelector) and node.name.endswith(("_total", "_bucket", "_count")):
            assert node.name in counted


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
def test_an_alert_says_what_it_is_and_what_to_do(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert {"summary", "action"} <= alert["annotations"].keys()
    assert alert.keys() <= {"alert", "expr", "for", "labels", "annotations"}


def test_the_alerts_cover_what_can_go_wrong() -> None:
    watched = " ".join(alert["expr"] for alert in ALERTS)
    for part in ("redis", "database", "engine|semantic"):
        assert part in watched
    for metric in (
        *("lamina_breaker_open", "lamina_budget_suspended", "lamina_budget_wrong_share", "lamina_faults_total"),
        *("lamina_request_seconds_bucket", "lamina_engine_waiting", "lamina_ttft_seconds_bucket"),
        *("lamina_engine_failed_steps_total", "lamina_part_up"),
    ):
        assert metric in watched
    assert len({alert["alert"] for alert in ALERTS}) == len(ALERTS)


def test_dashboards_show_what_was_promised() -> None:
    shown = " ".join(query for name, query in QUERIES.items() if ":" in name)
    for metric in (
        *("lamina_request_seconds_count", "lamina_cache_lookup_seconds_bucket", "lamina_ttft_seconds_bucket"),
        *("lamina_engine_kv_usage", "lamina_engine_kv_fragmentation", "lamina_engine_kv_evictions_total"),
        *("lamina_engine_prefix_hit_tokens_total", "lamina_engine_time_to_first_token_seconds_bucket"),
        *("lamina_engine_time_per_output_token_seconds_bucket", "lamina_engine_queue_time_seconds_bucket"),
        *("lamina_budget_wrong_share_low", "lamina_budget_wrong_share_high", "lamina_faults_total"),
        *("lamina_guard_verdicts_total", "lamina_saved_usd_total", "lamina_engine_failed_steps_total"),
    ):
        assert metric in shown


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: str(path.stem))
def test_a_dashboard_is_whole(path: Any) -> None:
    board = json.loads(path.read_text("utf-8"))
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    source = yaml.safe_load((DEPLOY / "grafana" / "datasource.yml").read_text("utf-8"))["datasources"][0]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, f"{panel['title']} lies over another panel"
        assert at["x"] + at["w"] <= 24
        taken |= cells
        if panel["type"] != "row":
            assert panel["datasource"] == {"type": "prometheus", "uid": source["uid"]}
            assert panel["title"]
            assert panel["fieldConfig"]["defaults"]["unit"]


def test_dashboards_are_as_the_script_makes_them() -> None:
    script = ROOT / "scripts" / "grafana.py"
    subprocess.run([sys.executable, str(script), "--check"], check=True, capture_output=True)


def test_prometheus_asks_every_service_that_exports() -> None:
    services = compose.load()["services"]
    jobs = {job["job_name"]: job for job in PROMETHEUS["scrape_configs"]}
    for name, port in (("gateway", 8080), ("engine", 8081), ("semantic", 8082)):
        (found,) = jobs[name]["dns_sd_configs"]
        assert found["names"] == [name]
        assert found["port"] == port
        assert name in services
    token = jobs["semantic"]["authorization"]["credentials_file"]
    assert token == "/run/secrets/semantic_token"
    assert "semantic_token" in services["prometheus"]["secrets"]
    mounted = {one["target"] for one in services["prometheus"]["configs"]}
    assert set(PROMETHEUS["rule_files"]) < mounted


def test_the_engines_figures_are_counted_once() -> None:
    (job,) = (one for one in PROMETHEUS["scrape_configs"] if one["job_name"] == "gateway")
    (rule,) = job["metric_relabel_configs"]
    assert rule == {"source_labels": ["__name__"], "regex": "lamina_engine_.*", "action": "drop"}
