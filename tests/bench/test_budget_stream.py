"""The budget benchmark on a short stream: deterministic, and its rules are what they say."""

import json
import subprocess
import sys

import pytest

from bench.budget.rules import Oracle, Ours
from bench.budget.vcache import VCacheEntry
from bench.budget.world import VARIANTS, World
from bench.budget_stream import figures, hindsight, main


@pytest.mark.parametrize("variant", VARIANTS)
def test_equal_seeds_draw_equal_streams(variant: str) -> None:
    one, other, third = (list(World(variant, seed).stream(300)) for seed in (1, 1, 2))
    assert one == other != third
    assert all(0 <= request.chance <= 1 for request in one)


def test_a_new_entry_of_vcache_always_explores() -> None:
    entry = VCacheEntry(log_grid=False)
    for _ in range(3):
        assert entry.exploration(1.0, 0.02) == 1.0
        entry.learn(0.95, right=True)


def test_a_log_spaced_grid_serves_what_a_linear_one_keeps_exploring() -> None:
    """The table never goes below 0.0153: however many clean labels come, half of the safe hits stay lost."""
    taus = []
    for log_grid in (False, True):
        entry = VCacheEntry(log_grid=log_grid)
        for number in range(60):
            entry.learn(0.9 + number / 1000, right=True)
            entry.learn(0.1 - number / 1000, right=False)
        taus.append(entry.exploration(0.95, 0.01))
    assert taus[0] > 0.3
    assert taus[1] < 0


def test_who_knows_the_truth_keeps_the_bound_and_hindsight_too() -> None:
    stream = list(World("sigmoid", 1).stream(3_000))
    oracle = figures(Oracle(0.01, 1), stream)
    assert oracle["wrong_of_all"] <= 0.01
    assert hindsight(0.01, stream)["wrong_of_all"] <= 0.01


@pytest.mark.slow
def test_ours_keeps_the_budget_close_to_who_knows_the_truth() -> None:
    """Shorter than the benchmark, so the cost of learning weighs more."""
    stream = list(World("sigmoid", 7).stream(8_000))
    ours, oracle = figures(Ours(0.01, 7), stream), figures(Oracle(0.01, 7), stream)
    assert ours["wrong_of_all"] <= 0.01
    assert ours["hits"] >= 0.85 * oracle["hits"]


@pytest.mark.slow
def test_the_command() -> None:
    run = [
        sys.executable,
        "-m",
        main.__module__,
        "--requests",
        "400",
        "--seeds",
        "1",
        "--variant",
        "steps",
        "--json",
    ]
    told = json.loads(subprocess.run(run, capture_output=True, text=True, check=True).stdout)
    assert set(told["variants"]["steps"]["0.01"]) >= {"ours", "vcache", "oracle", "hindsight"}
    assert set(told["verdicts"]["steps"]["0.01"]) == {"within_budget", "near_oracle"}
