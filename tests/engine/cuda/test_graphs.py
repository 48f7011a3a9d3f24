"""Which decode steps are recorded, in what order, and which recording a step takes."""

import logging
from dataclasses import fields, replace

import pytest

from engine.cuda.graphs import Buckets, GraphCache, GraphKey, decode_buckets
from tests.engine.cuda.doubles import FakeRecorder

KEY = GraphKey(8, 512, "triton+triton", "bf16", "int8", (None, 512), None, 8)


def test_buckets_are_fine_where_padding_would_cost_most() -> None:
    assert decode_buckets(256, 4096).rows == (1, 2, 4, 8, 16, 32, 64, 96, 128, 160, 192, 224, 256)
    assert decode_buckets(6, 4096).rows == (1, 2, 4, 6)
    assert decode_buckets(1, 4096).rows == (1,)
    assert decode_buckets(40, 4096).rows == (1, 2, 4, 8, 16, 32, 40)
    assert decode_buckets(8, 4096).lengths == (512, 4096)
    assert decode_buckets(8, 300).lengths == (300,)


def test_a_step_takes_the_smallest_bucket_it_fits_in() -> None:
    buckets = Buckets((1, 4, 8), (512, 4096))
    assert buckets.fitting(1, 1) == (1, 512)
    assert buckets.fitting(3, 512) == (4, 512)
    assert buckets.fitting(4, 513) == (4, 4096)
    assert buckets.fitting(9, 1) is None
    assert buckets.fitting(1, 4097) is None


def test_the_largest_is_recorded_first() -> None:
    assert Buckets((1, 4), (512, 4096)).all() == [(4, 4096), (4, 512), (1, 4096), (1, 512)]


@pytest.mark.parametrize("part", [field.name for field in fields(GraphKey)])
def test_a_recording_serves_only_its_very_key(part: str) -> None:
    """transformers#45323: a key without the length bucket cost half of GSM8K's accuracy."""
    cache = GraphCache(FakeRecorder())
    cache.record([KEY], str)
    assert cache.find(KEY) is not None
    assert cache.find(replace(KEY, **{part: "another"})) is None
    assert (cache.replays, cache.eager) == (1, 1)


def test_a_failure_is_counted_and_logged_and_the_rest_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    keys = [replace(KEY, rows=rows) for rows in (8, 4, 2)]
    done: list[int] = []
    cache = GraphCache(FakeRecorder(fails=(2,)))
    with caplog.at_level(logging.ERROR):
        cache.record(keys, lambda key: done.append(key.rows))
    assert done == [8, 2]
    assert (len(cache), cache.failed) == (2, 1)
    assert "a decode step of 4 rows could not be captured and will run eagerly" in caplog.text
    assert cache.find(keys[1]) is None
