"""Limits: what is within them, what is not, and that waiting as told is enough."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.limits import DAY_S, MOST, NO_LIMITS, Limits, Used, judge

NOW_S = 1_000_020.0


def used(**changes: float) -> Used:
    base = {"now_s": NOW_S, "this_minute": 1, "last_minute": 0, "tokens": 0, "in_flight": 1}
    return Used(**(base | changes))  # type: ignore[arg-type]


def test_without_limits_everything_is_within() -> None:
    assert judge(NO_LIMITS, used(this_minute=10**9, tokens=10**12, in_flight=10**6)) is None


@pytest.mark.parametrize(
    ("limits", "within", "beyond", "reason"),
    [
        (Limits(requests_per_minute=3), {"this_minute": 3}, {"this_minute": 4}, "requests"),
        (Limits(requests_per_minute=0), {"this_minute": 0}, {"this_minute": 1}, "requests"),
        (Limits(tokens_per_day=100), {"tokens": 99}, {"tokens": 100}, "tokens"),
        (Limits(concurrent=2), {"in_flight": 2}, {"in_flight": 3}, "concurrent"),
    ],
)
def test_each_bound_holds_to_the_one(
    limits: Limits, within: dict[str, int], beyond: dict[str, int], reason: str
) -> None:
    assert judge(limits, used(**within)) is None
    over = judge(limits, used(**beyond))
    assert over is not None
    assert over.reason == reason
    assert over.retry_after_s >= 1


def test_the_minute_before_counts_as_far_as_sixty_seconds_reach() -> None:
    start = 60.0 * 1000
    limits = Limits(requests_per_minute=60)
    assert judge(limits, used(now_s=start, this_minute=1, last_minute=60)) is not None
    assert judge(limits, used(now_s=start + 30, this_minute=30, last_minute=60)) is None
    assert judge(limits, used(now_s=start + 30, this_minute=31, last_minute=60)) is not None


def test_tokens_come_back_with_the_day() -> None:
    over = judge(Limits(tokens_per_day=5), used(now_s=DAY_S * 3 - 10.5, tokens=9))
    assert over is not None
    assert over.retry_after_s == 11


def test_the_longest_wait_is_told() -> None:
    over = judge(Limits(1, 1, 1), used(this_minute=2, tokens=5, in_flight=2))
    assert over is not None
    assert over.reason == "tokens"


@given(
    bound=st.integers(1, 500),
    into=st.floats(0, 59.9),
    this=st.integers(1, 1000),
    last=st.integers(0, 1000),
)
def test_waiting_as_told_is_enough_for_one_more_request(bound: int, into: float, this: int, last: int) -> None:
    now = used(now_s=60.0 * 1000 + into, this_minute=this, last_minute=last)
    over = judge(Limits(requests_per_minute=bound), now)
    if over is None:
        return
    earlier = this - 1  # the refused request is taken back
    later_s = now.now_s + over.retry_after_s
    minutes = int(later_s // 60) - 1000
    counts = {0: (earlier, last), 1: (0, earlier)}.get(minutes, (0, 0))
    again = msgspec.structs.replace(now, now_s=later_s, this_minute=counts[0] + 1, last_minute=counts[1])
    assert judge(Limits(requests_per_minute=bound), again) is None
    assert over.retry_after_s <= 120


@pytest.mark.parametrize("bad", [-1, MOST + 1, True, 1.5, "1"])
def test_a_bound_is_a_whole_number(bad: object) -> None:
    with pytest.raises(ValueError, match="requests_per_minute"):
        Limits(requests_per_minute=bad)  # type: ignore[arg-type]
