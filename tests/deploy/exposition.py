"""What the code exports: every sample's name with its labels, of gateway, engine and semantic service."""

import ast
from collections.abc import Iterator

from prometheus_client import CollectorRegistry

from engine.metrics import Metrics as EngineMetrics
from gateway.telemetry.metrics import Metrics as GatewayMetrics
from semantic.metrics import Metrics as SemanticMetrics
from tests.deploy.compose import ROOT

_OF_PROMETHEUS = {"up": {"job", "instance"}}
_ENDS = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}


def exported() -> dict[str, set[str]]:
    """Labels by sample, `job` and `instance` among them, as Prometheus adds those."""
    found = dict(_OF_PROMETHEUS)
    for registry in (GatewayMetrics().registry, EngineMetrics().registry, SemanticMetrics().registry):
        found |= dict(_samples(registry))
    return found | {f"lamina_semantic_{name}": {"job", "instance"} for name in _watched()}


def _samples(registry: CollectorRegistry) -> Iterator[tuple[str, set[str]]]:
    for collector in list(registry._collector_to_names):
        labels = {*getattr(collector, "_labelnames", ()), "job", "instance"}
        for family in collector.describe():
            for end in _ENDS[family.type]:
                yield family.name + end, labels | ({"le"} if end == "_bucket" else set())


def _watched() -> Iterator[str]:
    """Gauges that the semantic service makes once it has an index."""
    tree = ast.parse((ROOT / "semantic" / "wiring.py").read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "watch":
            name = node.args[0]
            if isinstance(name, ast.Constant):
                yield str(name.value)
