"""What operators see is what the page says, and it moves."""

from pathlib import Path

import pytest

from engine.core import StepFigures
from engine.errors import RequestError
from engine.events import FinishReason
from engine.metrics import Metrics
from engine.sampling import SamplingParams
from engine.work import Plan, Work
from tests.engine import tiny
from tests.engine.fakes import ScriptedRunner, build_core

PAGE = (Path(__file__).parents[2] / "docs" / "engine.md").read_text("utf-8").partition("## Metrics")[2]


def exposed(metrics: Metrics) -> dict[str, float]:
    lines = metrics.exposition().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def test_the_page_names_every_metric() -> None:
    metrics = Metrics()
    metrics.refused(RequestError(429, "later", reason="queue_full"))
    families = {family.name for family in metrics.registry.collect()}
    missing = {name for name in families if f"_{name.removeprefix('lamina_engine_')}" not in PAGE}
    assert missing == set()


def test_a_sequence_is_counted_from_arrival_to_end() -> None:
    metrics = Metrics()
    sequence = tiny.new_sequence(0, (5, 6, 7), SamplingParams(max_tokens=2))
    sequence.admitted_s = 0.5
    metrics.admitted(sequence)
    sequence.first_token_s = 2.0
    metrics.token(sequence, None)
    metrics.token(sequence, 0.25)
    metrics.finished(sequence, FinishReason.LENGTH, now_s=5.0)
    metrics.finished(sequence, FinishReason.ABORT, now_s=6.0)
    metrics.stepped(StepFigures(0.5, Plan((Work(sequence, 0, 3, 0),), preempted=(sequence, sequence))))
    metrics.stepped(StepFigures(0.25, Plan((Work(sequence, 3, 1, 3),), decoding=1)))
    metrics.stepped(StepFigures(0.25, Plan(()), fault="error"))
    found = exposed(metrics)
    expected = {
        "prompt_tokens_total": 3,
        "generation_tokens_total": 2,
        "queue_time_seconds_sum": 0.5,
        "time_to_first_token_seconds_sum": 2.0,
        "time_to_first_token_seconds_count": 1,
        "time_per_output_token_seconds_sum": 0.25,
        'finished_total{reason="length"}': 1,
        'finished_total{reason="abort"}': 1,
        'finished_total{reason="stop"}': 0,
        "aborted_total": 1,
        "prefill_time_seconds_sum": 1.5,
        "decode_time_seconds_sum": 3.0,
        "request_time_seconds_sum": 5.0,
        'preemptions_total{kind="recompute"}': 2,
        'preemptions_total{kind="swap"}': 0,
        'failed_steps_total{fault="error"}': 1,
        'step_seconds_sum{kind="prefill"}': 0.5,
        'step_seconds_sum{kind="decode"}': 0.25,
        'computed_tokens_total{kind="prefill"}': 3,
        'computed_tokens_total{kind="decode"}': 1,
        "batch_size_sum": 2,
        "step_tokens_sum": 4,
    }
    assert {name: found[f"lamina_engine_{name}"] for name in expected} == pytest.approx(expected)


def test_the_kv_caches_own_counts_are_carried_over() -> None:
    metrics = Metrics()
    core = build_core(ScriptedRunner(300, any_chunks=True), observer=metrics)
    for number in range(2):
        core.add(tiny.new_sequence(number, tuple(range(20, 40)), SamplingParams(max_tokens=2, temperature=0)))
        while core.has_work:
            core.step()
    found = exposed(metrics)
    expected = {
        "prefix_query_tokens_total": 40,
        'prefix_hit_tokens_total{tier="device"}': 19,
        'prefix_misses_total{reason="cold"}': 1,
        "prefix_written_tokens_total": 20,
        "kv_blocks_used": 0,
        "kv_blocks_cached": 5,
        "kv_usage": 0,
        "running": 0,
        "waiting": 0,
    }
    assert {name: found[f"lamina_engine_{name}"] for name in expected} == pytest.approx(expected)
