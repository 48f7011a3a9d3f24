"""Serve, explore, refuse."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.budget import Bank, Explore, Mark, Pool, Refuse, Rules, Serve, decide, score_of, would_serve
from policies.budget.decision import exploration

RULES = Rules(delta=0.01)
GOOD = Pool(30 * 86400.0)
for _row in range(400):
    GOOD.learn(Mark(_row, 3.0 if _row % 2 else 6.0, right=True, at_s=0.0))
    GOOD.learn(Mark(_row, -2.0, right=False, at_s=0.0))
_RANK = {Refuse: 0, Explore: 1, Serve: 2}


@given(chance=st.floats(0, 1), delta=st.floats(1e-6, 1))
def test_tau_is_a_probability_and_keeps_the_bound(chance: float, delta: float) -> None:
    tau = exploration(chance, delta)
    assert 0 <= tau <= 1
    assert (1 - tau) * (1 - chance) <= delta + 1e-9


@given(scores=st.tuples(st.floats(-12, 12), st.floats(-12, 12)), u=st.floats(0, 1, exclude_max=True))
@settings(deadline=None)
def test_a_higher_score_is_never_less_likely_served(scores: tuple[float, float], u: float) -> None:
    low, high = sorted(scores)
    ranks = [_RANK[type(decide(score, None, GOOD, RULES, u))] for score in (low, high)]
    assert ranks[0] <= ranks[1]


def test_sure_candidates_are_served_and_hopeless_ones_not_compared() -> None:
    assert isinstance(decide(8.0, None, GOOD, RULES, 0.9), Serve)
    hopeless = decide(-9.0, None, GOOD, RULES, 0.0)
    assert isinstance(hopeless, Refuse)
    assert (hopeless.reason, hopeless.explore) == ("hopeless", 1.0)
    learning = decide(0.0, None, GOOD, RULES, 0.99)
    assert isinstance(learning, Explore)
    assert learning.reason == "learn"


def test_a_fresh_install_may_serve_what_the_verifier_is_very_sure_of() -> None:
    fresh = Pool(1e6)
    decision = decide(score_of(0.9999), 1, fresh, RULES, 0.9)
    assert isinstance(decision, Serve)
    assert decision.explore < 0.05
    assert isinstance(decide(score_of(0.9), 1, fresh, RULES, 0.9), Explore)


def test_audits_are_drawn_from_would_be_hits_with_the_probability_told() -> None:
    draw = random.Random(1)
    rules = Rules(0.01, audit_share=0.1, audits=1000)
    found = [decide(8.0, None, GOOD, rules, draw.random()) for _ in range(4_000)]
    would = [one for one in found if would_serve(one)]
    audits = [one for one in would if isinstance(one, Explore)]
    assert {one.reason for one in audits} == {"audit"}
    assert {one.share for one in audits} == {0.1}
    assert len(audits) / len(would) == pytest.approx(0.1, abs=0.015)


def test_audits_are_many_while_there_are_few_and_never_where_there_are_to_be_none() -> None:
    assert Rules(0.01).audited() == pytest.approx(0.2)
    assert Rules(0.01, audits=100_000).audited() == pytest.approx(0.02)
    assert Rules(0.01, audits=100_000, caution="tightened").audited() == pytest.approx(0.2)
    assert Rules(0.01, audit_share=0.0).audited() == 0.0
    assert Rules(0.01, audit_share=0.0, caution="suspended").audited() == 0.0
    assert Rules(0.01, audit_share=1.0).audited() == 1.0


@pytest.mark.parametrize(
    ("rules", "reason"), [(Rules(0.01, serving=False), "observe"), (Rules(0.01, caution="suspended"), "suspended")]
)
def test_where_nothing_is_served_would_be_hits_are_still_audited(rules: Rules, reason: str) -> None:
    draw = random.Random(2)
    found = [decide(8.0, None, GOOD, rules, draw.random()) for _ in range(500)]
    assert not [one for one in found if isinstance(one, Serve)]
    assert {one.reason for one in found if would_serve(one)} == {reason}
    assert {type(one) for one in found if would_serve(one)} == {Explore, Refuse}


def test_tightened_serves_less() -> None:
    score = next(x / 10 for x in range(120) if GOOD.chance(x / 10, None) > 0.97)
    shares = [
        decide(score, None, GOOD, Rules(0.01, caution=caution), 0.0).explore for caution in ("normal", "tightened")
    ]
    assert shares[0] < shares[1]


def test_floors() -> None:
    assert isinstance(decide(8.0, None, GOOD, Rules(0.01, least_score=9.0), 0.99), Explore)
    assert isinstance(decide(8.0, None, GOOD, Rules(0.5, least_chance=1.0), 0.99), Explore)


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1)), max_size=300), st.floats(0.001, 0.1))
def test_in_sum_no_more_is_risked_than_all_requests_are_entitled_to(
    requests: list[tuple[bool, float]], delta: float
) -> None:
    """Each request serves with the probability that the bank allows; what is risked is the expectation of that."""
    bank, risked = Bank(), 0.0
    for number, (candidate, chance) in enumerate(requests, 1):
        bank.came(delta)
        if candidate:
            served = 1.0 - exploration(chance, bank.delta(delta))
            risk = served * (1.0 - chance)
            bank.saved -= risk
            risked += risk
        assert risked <= delta * number + 1e-9
