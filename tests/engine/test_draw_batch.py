"""Rows chosen together are chosen as the definition says, or left to it."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.draw import Row, choose
from engine.draw_batch import choose_many
from engine.sampling import SamplingParams
from tests.engine.test_draw import WISHES, logits

SIZES = st.sampled_from([1, 7, 300, 1024, 3000])


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[Row], list[SamplingParams], list[float]]:
    size = draw(SIZES)
    count = draw(st.integers(1, 5))
    rows = [
        logits(draw(st.integers(0, 10**6)), size, draw(st.sampled_from([0.01, 4.0, 20.0])), step)
        for step in draw(st.lists(st.sampled_from([0.0, 0.125, 1.0]), min_size=count, max_size=count))
    ]
    wishes = draw(st.lists(WISHES, min_size=count, max_size=count))
    draws = draw(st.lists(st.floats(0, 1, exclude_max=True), min_size=count, max_size=count))
    return rows, wishes, draws


@settings(max_examples=200, deadline=None)
@given(batches())
def test_what_is_settled_is_the_definitions(batch: tuple[list[Row], list[SamplingParams], list[float]]) -> None:
    rows, wishes, draws = batch
    found = choose_many(torch.from_numpy(np.stack(rows)), wishes, draws)
    for row, params, draw, token in zip(rows, wishes, draws, found, strict=True):
        if token is None:
            assert len(row) > 1024 or params.top_p < 1 or params.min_p > 0 or params.top_k
        elif params.top_p == 1 and params.min_p == 0 and not 0 < params.top_k < len(row):
            assert np.isfinite(row[token])
        else:
            assert token == choose(row, params, draw)


@pytest.mark.parametrize(
    "wishes", [{"temperature": 0.2, "top_p": 0.9}, {"top_k": 50}, {"min_p": 0.05}, {"top_p": 0.95}, {}]
)
def test_common_wishes_are_settled_where_a_model_knows_what_it_wants(wishes: dict[str, float]) -> None:
    rows = np.stack([logits(seed, 5000, 3.0, 0.0) for seed in range(20)]) - np.arange(5000, dtype=np.float32) / 200
    params = [SamplingParams(1, **wishes)] * 20
    draws = [(seed + 0.5) / 20 for seed in range(20)]
    found = choose_many(torch.from_numpy(rows), params, draws)
    assert None not in found
    assert found == [choose(row, one, draw) for row, one, draw in zip(rows, params, draws, strict=True)]
