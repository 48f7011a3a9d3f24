"""Figures over time: tallies add up in any order, percentiles stay within their bucket."""

import math

from hypothesis import given
from hypothesis import strategies as st

from policies.series import LEAST_MS, PER_OCTAVE, Tally, bucket_of, merged, middle_ms, slots, total

LATENCIES = st.lists(st.floats(min_value=LEAST_MS * 2, max_value=600_000), min_size=1, max_size=60)


def tally(latencies: list[float]) -> Tally:
    made = Tally(requests=len(latencies))
    for one in latencies:
        made.buckets[bucket_of(one)] = made.buckets.get(bucket_of(one), 0) + 1
    return made


@given(LATENCIES, st.sampled_from([0.5, 0.95, 1.0]))
def test_a_percentile_is_within_half_a_bucket(latencies: list[float], share: float) -> None:
    exact = sorted(latencies)[max(0, math.ceil(share * len(latencies)) - 1)]
    found = tally(latencies).percentile_ms(share)
    assert found is not None
    assert abs(math.log2(found / exact)) <= 0.5 / PER_OCTAVE + 1e-4


@given(st.lists(LATENCIES, max_size=5), st.randoms(use_true_random=False))
def test_tallies_add_up_in_any_order(parts: list[list[float]], random: object) -> None:
    tallies = [{"exact": tally(one)} for one in parts]
    assert merged(tallies) == merged(reversed(tallies))
    assert total(one["exact"] for one in tallies).requests == sum(map(len, parts))


def test_adding_up_leaves_the_parts_as_they_are() -> None:
    first, second = Tally(requests=1, buckets={3: 1}), Tally(requests=2, buckets={3: 2})
    merged([{"a": first}, {"a": second}])
    total([first, second])
    assert (first, second) == (Tally(requests=1, buckets={3: 1}), Tally(requests=2, buckets={3: 2}))


def test_nothing_has_no_percentile_and_extremes_have_a_bucket() -> None:
    assert Tally().percentile_ms(0.5) is None
    assert bucket_of(0.0) == 0
    assert bucket_of(1e12) == PER_OCTAVE * 24
    assert middle_ms(0) < middle_ms(1)


def test_the_slot_under_way_is_the_last() -> None:
    assert slots(125.0, 60, 3) == [0, 1, 2]
