"""What is chosen among a few near tokens is what the definition chooses among all."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.draw import Row, choose, nearest_ids, uniform
from engine.sampling import SamplingParams


def defined(row: Row, params: SamplingParams, draw: float) -> int:
    """The definition, word by word."""
    order = sorted(range(len(row)), key=lambda token: (-float(row[token]), token))
    if params.top_k:
        order = order[: params.top_k]
    best = float(row[order[0]])
    weights = [math.exp((float(row[token]) - best) / params.temperature) for token in order]
    total, before, kept = math.fsum(weights), 0.0, []
    for token, weight in zip(order, weights, strict=True):
        if kept and (before >= params.top_p * total or weight < params.min_p):
            break
        kept.append((token, weight))
        before += weight
    target, running = draw * math.fsum(weight for _, weight in kept), 0.0
    for token, weight in kept:
        running += weight
        if running > target:
            return token
    return kept[-1][0]


def logits(seed: int, size: int, spread: float, step: float) -> Row:
    """Bell-shaped logits, rounded so that ties are common, some of them forbidden."""
    generator = np.random.default_rng(seed)
    row = generator.normal(0, spread, size)
    if step:
        row = np.round(row / step) * step
    row[generator.random(size) < 0.1] = -np.inf
    row[generator.integers(size)] = spread
    return row.astype(np.float32)


WISHES = st.builds(
    SamplingParams,
    max_tokens=st.just(1),
    temperature=st.sampled_from([1e-5, 0.2, 0.7, 1.0, 2.0]),
    top_p=st.sampled_from([0.0, 0.1, 0.9, 0.99, 1.0]),
    top_k=st.sampled_from([0, 1, 20, 5000]),
    min_p=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
)
ROWS = st.builds(
    logits,
    seed=st.integers(0, 10**6),
    size=st.sampled_from([1, 2, 7, 300, 6000]),
    spread=st.sampled_from([0.01, 1.0, 4.0, 20.0]),
    step=st.sampled_from([0.0, 0.125, 1.0]),
)


@settings(max_examples=200, deadline=None)
@given(row=ROWS, params=WISHES, draw=st.floats(0, 1, exclude_max=True))
def test_few_are_looked_at_and_the_result_is_the_definitions(
    row: Row, params: SamplingParams, draw: float
) -> None:
    if params.top_p == 1 and params.min_p == 0 and not 0 < params.top_k < len(row):
        assert math.isfinite(row[choose(row, params, draw)])
    else:
        assert choose(row, params, draw) == defined(row, params, draw)


def test_without_cuts_tokens_come_as_often_as_the_softmax_says() -> None:
    row = logits(1, 700, 1.0, 0.0)
    shares = np.exp(row.astype(np.float64)) / np.exp(row.astype(np.float64)).sum()
    params = SamplingParams(1, temperature=1.0)
    draws = (np.arange(20_000) + 0.5) / 20_000
    found = np.bincount([choose(row, params, draw) for draw in draws], minlength=len(row)) / len(draws)
    assert np.abs(found - shares).max() <= 1.01 / len(draws)


def test_equal_logits_are_ordered_by_id() -> None:
    row = np.array([1, 3, 3, -np.inf, 3, -0.0, 0.0], np.float32)
    assert nearest_ids(row, 4).tolist() == [1, 2, 4, 0]
    assert nearest_ids(row, 99).tolist() == [1, 2, 4, 0, 5, 6, 3]
    assert nearest_ids(row, 0).tolist() == []


@pytest.mark.parametrize("draw", [0.0, 1 - 2**-53])
def test_the_ends_of_the_draw_stay_inside(draw: float) -> None:
    row = np.full(1000, -np.inf, np.float32)
    row[[400, 401]] = 2.0
    for wishes in ({}, {"top_p": 0.9}, {"top_k": 5}, {"min_p": 0.1}):
        assert choose(row, SamplingParams(1, **wishes), draw) == (400 if draw == 0 else 401)


def test_draws_differ_by_seed_sample_and_position_and_are_stable() -> None:
    assert len({uniform(1, 0, 0), uniform(2, 0, 0), uniform(1, 1, 0), uniform(1, 0, 1)}) == 4
    assert uniform(-5, 0, 0) == uniform(-5, 0, 0)
    assert uniform(42, 0, 7) == pytest.approx(0.26365393968815287, abs=1e-15)
    draws = [uniform(9, 0, position) for position in range(2000)]
    assert 0 <= min(draws) < max(draws) < 1
    assert sum(draws) / len(draws) == pytest.approx(0.5, abs=0.03)
