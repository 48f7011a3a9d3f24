"""Counts of a replay: intervals, unknown hits, savings, and a course that stays short."""

import pytest

from policies.intervals import wilson
from policies.replay import Line, Outcome, Prices, Tally, enough_for

LINE = Line(1.0, "t", "m", {}, prompt_tokens=10, completion_tokens=30, latency_ms=500.0)


def tally(*outcomes: Outcome) -> Tally:
    counted = Tally()
    for outcome in outcomes:
        counted.add(LINE, outcome)
    return counted


RIGHT, WRONG = Outcome("exact", "exact", True), Outcome("semantic", "semantic", False)
UNKNOWN, MISS = Outcome("semantic", "semantic", None), Outcome(None, "absent")


def test_shares_have_their_intervals() -> None:
    counted = tally(RIGHT, RIGHT, WRONG, UNKNOWN, MISS, MISS, MISS, MISS)
    assert (counted.requests, counted.hits, counted.wrong, counted.unknown) == (8, 4, 1, 1)
    assert counted.wrong_of_all() == (1 / 8, wilson(1 / 8, 8))
    assert counted.wrong_of_hits() == (1 / 3, wilson(1 / 3, 3))
    assert counted.most_wrong() == wilson(2 / 8, 8).high, "what cannot be judged counts as wrong"
    assert counted.misses == {"absent": 4}


def test_savings_are_those_of_the_hits() -> None:
    told = tally(RIGHT, WRONG, MISS).as_json(Prices(1.0, 2.0))
    assert told["layers"]["exact"] == {
        "hits": 1,
        "wrong": 0,
        "unknown": 0,
        "prompt_tokens_saved": 10,
        "completion_tokens_saved": 30,
        "cost_saved": pytest.approx(70e-6),
        "latency_saved_ms": 500.0,
    }


def test_an_empty_tally_promises_nothing() -> None:
    assert Tally().most_wrong() == 1.0
    assert Tally().hit_share == 0.0


def test_the_course_stays_short_and_ends_near_the_end() -> None:
    counted = tally(*[RIGHT] * 10_000)
    course = counted.course()
    assert len(course) < 500
    assert course == sorted(course)
    assert course[-1][1] > 9_900


@pytest.mark.parametrize("bound", [0.001, 0.01, 0.05])
def test_enough_is_enough(bound: float) -> None:
    enough = enough_for(bound)
    assert wilson(0.0, enough).high <= bound < wilson(0.0, enough - 2).high
