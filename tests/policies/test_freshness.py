"""Stale answers and early refreshes: what the operator allows, and no more."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.controls import NO_CONTROLS, Controls
from policies.decide import Hit, Life, Miss, Stale, judge
from policies.freshness import StaleRules, early, excused, failed_upstream, near_end, revalidating

LIFE = Life(created_s=1000.0, ttl_s=100.0)
RULES = StaleRules(revalidate_s=30.0, error_s=300.0)


def decided(now_s: float, purged: str | None = None, controls: Controls = NO_CONTROLS) -> Hit | Stale | Miss:
    decision = judge(LIFE, purged, controls, now_s)  # type: ignore[arg-type]
    return revalidating(decision, LIFE, RULES, now_s)


def test_a_stale_answer_is_served_within_the_window_and_not_after() -> None:
    assert isinstance(decided(1099.0), Hit)
    assert decided(1129.0) == Stale(129.0, -29.0, "revalidating")
    assert decided(1131.0) == Miss("expired")
    assert revalidating(Miss("expired"), LIFE, StaleRules(), 1101.0) == Miss("expired")


def test_a_soft_purge_is_revalidated_and_a_hard_one_never_served() -> None:
    assert decided(1010.0, "soft") == Stale(10.0, 0.0, "revalidating")
    for now_s in (1010.0, 1110.0):
        assert decided(now_s, "hard") == Miss("purged")
        assert excused("purged", LIFE, RULES, now_s) is None


@pytest.mark.parametrize("controls", [Controls(max_age_s=50.0), Controls(min_fresh_s=10.0)])
def test_a_request_that_wants_it_fresher_gets_it_fresher(controls: Controls) -> None:
    decision = decided(1110.0, None, controls)
    assert isinstance(decision, Miss)
    assert excused(decision.reason, LIFE, RULES, 1110.0) is None


def test_an_error_excuses_what_is_not_too_old() -> None:
    assert excused("expired", LIFE, RULES, 1399.0) == Stale(399.0, -299.0, "if_error")
    assert excused("expired", LIFE, RULES, 1401.0) is None
    assert excused("absent", LIFE, RULES, 1101.0) is None


@pytest.mark.parametrize(
    ("reason", "status", "ours"),
    [
        ("connect", 503, True),
        ("timeout", 504, True),
        ("status", 500, True),
        ("status", 429, True),
        ("status", 400, False),
        ("status", 404, False),
    ],
)
def test_a_request_that_is_wrong_is_told_so(reason: str, status: int, *, ours: bool) -> None:
    assert failed_upstream(reason, status) is ours


@given(st.floats(0.001, 1e5), st.floats(0, 100), st.floats(0, 10), st.floats(1e-9, 1.0))
def test_who_is_not_near_the_end_never_draws_a_refresh(ttl_s: float, took_s: float, beta: float, u: float) -> None:
    assert near_end(ttl_s, took_s, beta) or not early(ttl_s, took_s, beta, u)


def test_without_a_cost_or_an_appetite_nothing_is_refreshed() -> None:
    assert not early(0.001, 0.0, 1.0, 1e-9)
    assert not early(0.001, 10.0, 0.0, 1e-9)
    assert early(1.0, 1.0, 1.0, 0.3)
    assert not early(1.0, 1.0, 1.0, 0.5)


def waits(beta: float, seed: int, rate: float = 50.0, took_s: float = 1.0, ttl_s: float = 60.0) -> tuple[int, int]:
    """Requests that found nothing fresh, and model calls, over ten lives of one hot entry."""
    draw = random.Random(seed)
    now_s, expires_s, ready_s, missed, calls = 0.0, 0.0, 0.0, 0, 0
    while now_s < 10 * ttl_s:
        now_s += draw.expovariate(rate)
        if ready_s and now_s >= ready_s:
            expires_s, ready_s = ready_s + ttl_s, 0.0
        left_s = expires_s - now_s
        missed += left_s <= 0
        if not ready_s and (left_s <= 0 or early(left_s, took_s, beta, 1.0 - draw.random())):
            ready_s, calls = now_s + took_s, calls + 1
    return missed, calls


def test_a_hot_entry_is_renewed_before_its_end() -> None:
    without = [waits(0.0, seed) for seed in range(5)]
    with_it = [waits(1.0, seed) for seed in range(5)]
    assert min(missed for missed, _ in without) > 300, "a second of requests at each of ten ends"
    assert max(missed for missed, _ in with_it) < 80, "only the first second, before there is an entry"
    assert sum(calls for _, calls in with_it) <= 1.3 * sum(calls for _, calls in without)
