"""What is learnt of entries and pools: never a number that is none, and never the wrong way."""

import math
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.budget import Mark, Pool, score_of
from policies.budget.curves import EXPERTS, MOST_SCORE, NODES, Expert, shipped
from policies.budget.pool import MOST_ENTRIES

DAY_S = 86400.0
HALF_LIFE_S = 30 * DAY_S
SCORES = st.floats(-20, 20)
LABELS = st.lists(st.tuples(st.integers(0, 3), SCORES, st.booleans()), max_size=25)


def pool_of(labels: list[tuple[int, float, bool]]) -> Pool:
    pool = Pool(HALF_LIFE_S)
    for number, (row, score, right) in enumerate(labels):
        pool.learn(Mark(row, score, right, float(number)))
    return pool


@pytest.mark.parametrize("expert", EXPERTS)
def test_a_fresh_install_believes_the_verifier_by_and_large(expert: Expert) -> None:
    weights = shipped(expert)
    assert len(weights) == len(NODES)
    assert math.fsum(weights) == pytest.approx(1.0)
    pool = Pool(HALF_LIFE_S)
    for probability in (0.2, 0.5, 0.8, 0.95):
        assert pool.chance(score_of(probability), None) == pytest.approx(probability, abs=0.06)


@given(labels=LABELS, scores=st.tuples(SCORES, SCORES), row=st.none() | st.integers(0, 4))
@settings(deadline=None, max_examples=60)
def test_a_higher_score_is_never_less_likely_right(
    labels: list[tuple[int, float, bool]], scores: tuple[float, float], row: int | None
) -> None:
    low, high = sorted(scores)
    pool = pool_of(labels)
    assert 0 <= pool.chance(low, row) <= pool.chance(high, row) + 1e-12
    assert pool.chance(high, row) <= 1


@given(labels=LABELS, score=SCORES, mark_at=SCORES)
@settings(deadline=None, max_examples=60)
def test_an_entrys_own_label_moves_it_the_right_way(
    labels: list[tuple[int, float, bool]], score: float, mark_at: float
) -> None:
    """With the pool held still, a right label never lowers an entry's chance and a wrong one never lifts it."""
    pool = pool_of([*labels, (1, 0.0, True)])
    before = pool.chance(score, 1)
    for right, sign in ((True, 1), (False, -1)):
        changed = pool_of([*labels, (1, 0.0, True)])
        entry = changed._entries[1]
        entry.marks.append(Mark(1, mark_at, right, float(len(labels))))
        entry.likes = None
        assert sign * (changed.chance(score, 1) - before) >= -1e-9


def test_perfect_separation_and_very_many_labels_leave_numbers() -> None:
    pool = Pool(HALF_LIFE_S)
    draw = random.Random(3)
    for number in range(4_000):
        score = draw.choice([-1, 1]) * draw.uniform(3, MOST_SCORE)
        pool.learn(Mark(number % 5, score, score > 0, number * 60.0))
    assert pool.chance(9.0, 1) > 0.995
    assert pool.chance(9.0, None) > 0.99
    assert pool.chance(-9.0, 1) < 1e-3
    for hopeless in (math.nan, math.inf, -math.inf):
        assert 0 <= pool.chance(hopeless, 1) <= 1


@pytest.mark.slow
def test_a_hundred_thousand_labels() -> None:
    pool = Pool(HALF_LIFE_S)
    draw = random.Random(4)
    for number in range(100_000):
        score = draw.uniform(-6, 12)
        pool.learn(
            Mark(draw.randrange(3_000), score, draw.random() < 1 / (1 + math.exp(1 - score)), number * 60.0)
        )
    assert len(pool._entries) <= MOST_ENTRIES
    for score in range(-12, 13):
        assert pool.chance(float(score), None) == pytest.approx(1 / (1 + math.exp(1 - score)), abs=0.05)


def test_a_decision_takes_well_under_a_millisecond() -> None:
    pool = pool_of([(number % 4, number % 9 - 2.0, number % 9 > 3) for number in range(400)])
    begun = time.thread_time()
    for number in range(200):
        pool.chance(number % 9 - 1.0, number % 4)
    assert (time.thread_time() - begun) / 200 < 0.001


def test_entries_begin_with_what_others_taught() -> None:
    """Ours needs no four labels of an entry before it is believed; the pool's speak for it."""
    good = pool_of([(row, 4.0, True) for row in range(300)])
    bad = pool_of([(row, 4.0, row % 3 > 0) for row in range(300)])
    assert good.chance(4.0, 999) > 0.99
    assert bad.chance(4.0, 999) < 0.75


def test_an_entry_that_was_wrong_is_believed_less_than_its_pool() -> None:
    pool = pool_of([(row, 4.0, True) for row in range(100)])
    fresh = pool.chance(4.0, 999)
    pool.learn(Mark(999, 4.0, right=False, at_s=101.0))
    assert pool.chance(4.0, 999) < 0.8 < fresh


def test_old_labels_fade() -> None:
    pool = pool_of([(1, 5.0, False) for _ in range(20)])
    soon = pool.chance(5.0, 1)
    pool.age(20 * HALF_LIFE_S)
    assert pool.labels < 1e-3
    assert soon < 0.2
    assert pool.chance(5.0, 1) == pytest.approx(Pool(HALF_LIFE_S).chance(5.0, None), abs=0.02)


def test_labels_may_come_in_any_order_of_time() -> None:
    pool = Pool(HALF_LIFE_S)
    for at_s in (5 * DAY_S, 0.0, 400 * DAY_S, -3.0):
        pool.learn(Mark(1, 3.0, right=True, at_s=at_s))
    assert 1.0 <= pool.labels <= 1.1
    assert pool.chance(3.0, 1) > 0.9


@pytest.mark.parametrize(
    ("probability", "score"),
    [(0.0, -12.0), (1.0, 12.0), (0.5, 0.0), (math.nan, -12.0), (-1.0, -12.0), (2.0, -12.0)],
)
def test_scores_of_probabilities(probability: float, score: float) -> None:
    assert score_of(probability) == score
