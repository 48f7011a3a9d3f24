"""Metrics: sums over workers, bounded labels, gauges that die with their worker."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.telemetry.metrics import FLUSH_S, Metrics, forget_worker

WORKER = """
from gateway.telemetry.metrics import Metrics
metrics = Metrics()
for _ in range(10):
    metrics.lookup("exact", "hit", "exact", 0.001)
metrics.flying(3)
metrics.tokens("exact", "m", 5, 2)
import sys
if sys.argv[1:] == ["show"]:
    sys.stdout.write(metrics.exposition().decode())
"""


def run_worker(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", WORKER, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def value(text: str, start: str) -> float:
    (line,) = [line for line in text.splitlines() if line.startswith(start)]
    return float(line.rpartition(" ")[2])


def test_counters_of_all_workers_are_summed_whichever_one_is_asked(tmp_path: Path) -> None:
    run_worker(tmp_path)
    run_worker(tmp_path)
    text = run_worker(tmp_path, "show")
    assert value(text, 'lamina_cache_lookups_total{layer="exact",reason="exact",result="hit"}') == 30
    assert value(text, 'lamina_cache_lookup_seconds_count{layer="exact"}') == 30
    assert value(text, 'lamina_tokens_saved_total{kind="prompt",layer="exact"}') == 15


def test_the_gauges_of_a_worker_that_ended_are_forgotten_and_its_counters_stay(tmp_path: Path) -> None:
    run_worker(tmp_path)
    before = {path.name for path in tmp_path.glob("gauge_live*")}
    (name,) = before
    forget_worker(tmp_path, int(name.removesuffix(".db").rpartition("_")[2]))
    assert not list(tmp_path.glob("gauge_live*"))
    text = run_worker(tmp_path, "show")
    assert value(text, "lamina_flights_in_progress") == 3
    assert value(text, 'lamina_cache_lookups_total{layer="exact",reason="exact",result="hit"}') == 20


def test_tokens_of_a_model_are_not_saved_and_tokens_of_a_layer_are() -> None:
    metrics = Metrics()
    metrics.tokens("model", "m", 7, 3)
    metrics.tokens("exact", "m", 5, 2)
    text = metrics.exposition().decode()
    assert value(text, 'lamina_tokens_total{kind="prompt",model="m",source="model"}') == 7
    assert value(text, 'lamina_tokens_saved_total{kind="completion",layer="exact"}') == 2


@pytest.mark.parametrize(
    "name", ["requests", "cache_lookups", "cache_writes", "tokens", "faults", "flights", "auth"]
)
def test_each_promised_family_is_exposed(name: str) -> None:
    assert f"# TYPE lamina_{name}_total counter" in Metrics().exposition().decode()


def test_observing_in_batches_is_observing(tmp_path: Path) -> None:
    seen = [0.0, 0.0002, 0.00020001, 0.5, 1.0, 7.0, 1e9]
    waiting: list[object] = []
    batched, one_by_one = Metrics(lambda _, flush: waiting.append(flush)), Metrics()
    for metrics in (batched, one_by_one):
        for value_s in seen:
            metrics.lookup("exact", "hit", "exact", value_s)
    assert len(waiting) == 1

    def figures(metrics: Metrics) -> list[str]:
        return [line for line in metrics.exposition().decode().splitlines() if "_created" not in line]

    assert figures(batched) == figures(one_by_one)


def test_what_waits_is_written_by_the_timer_it_asked_for() -> None:
    waiting: list[tuple[float, Callable[[], None]]] = []
    metrics = Metrics(lambda after_s, flush: waiting.append((after_s, flush)))
    metrics.tokens("exact", "m", 5, 2)
    ((after_s, flush),) = waiting
    assert after_s == FLUSH_S
    flush()
    metrics.auth("ok")
    assert len(waiting) == 2
