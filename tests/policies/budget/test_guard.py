"""The guard: tightens, suspends and recovers by audits alone."""

import random

import pytest

from policies.budget import Window, step
from policies.budget.decision import Caution
from policies.budget.guard import MOST_AUDITS

DELTA = 0.01


def window(audits: int, wrong: int, *, hits: float = 0.5, share: float = 0.02) -> Window:
    found = Window()
    found.asked, found.would = 10_000.0, 10_000.0 * hits
    labels = [False] * wrong + [True] * (audits - wrong)
    random.Random(audits * 7 + wrong).shuffle(labels)
    for number, right in enumerate(labels, 1):
        found.audited(share, right, number)
    return found


def moved(caution: Caution, found: Window) -> str | None:
    taken = step(caution, found.figures(), DELTA)
    return None if taken is None else f"{taken.caution}:{taken.reason}"


@pytest.mark.parametrize(
    ("caution", "audits", "wrong", "expected"),
    [
        ("normal", 0, 0, None),
        ("normal", 20, 0, None),
        ("normal", 60, 1, None),
        ("normal", 2_000, 8, None),
        ("normal", 100, 9, "tightened:over_budget"),
        ("normal", 3_000, 59, "tightened:over_budget"),
        ("normal", 100, 40, "suspended:far_over_budget"),
        ("tightened", 20, 0, None),
        ("tightened", 400, 0, "normal:within_budget"),
        ("tightened", 100, 9, "suspended:over_budget_tightened"),
        ("suspended", 100, 9, None),
        ("suspended", 400, 0, "tightened:within_budget"),
    ],
)
def test_steps(caution: Caution, audits: int, wrong: int, expected: str | None) -> None:
    assert moved(caution, window(audits, wrong)) == expected


def test_few_hits_can_do_little_harm() -> None:
    """Wrong in all requests is what the budget bounds: with one hit in 200, a tenth of them wrong is little."""
    assert moved("normal", window(500, 50, hits=0.005)) is None


def test_both_figures_with_intervals() -> None:
    figures = window(1_000, 10).figures()
    assert figures.share_of_hits == pytest.approx(0.01)
    assert figures.of_hits.low < 0.01 < figures.of_hits.high
    assert figures.of_all.high == pytest.approx(figures.of_hits.high / 2)
    assert figures.audits == pytest.approx(1_000)


def test_audits_drawn_more_often_count_less_each() -> None:
    found = window(100, 0, share=0.02)
    for number in range(100):
        found.audited(0.2, False, 1_000 + number)
    figures = found.figures()
    assert figures.share_of_hits == pytest.approx(1 / 11)
    assert figures.audits < 130


def test_a_window_forgets() -> None:
    found = window(100, 50)
    found.forget_upto(100)
    assert found.figures().audits == 0
    for number in range(MOST_AUDITS + 100):
        found.audited(1.0, True, 200 + number)
    assert found.figures().audits == pytest.approx(MOST_AUDITS)


@pytest.mark.parametrize(("wrong_share", "least"), [(0.002, "normal"), (0.2, "suspended")])
def test_a_long_run(wrong_share: float, least: str) -> None:
    """Well within its budget a layer stays trusted; far over it, it does not stay so."""
    draw = random.Random(5)
    caution: Caution = "normal"
    found, seen = Window(), set()
    for number in range(1, 3_000):
        found.asked += 50
        found.would += 25
        found.audited(0.04, draw.random() >= wrong_share, number)
        if number % 10 == 0 and (taken := step(caution, found.figures(), DELTA)) is not None:
            caution, found = taken.caution, Window()
        seen.add(caution)
    assert caution == least
    assert ("suspended" in seen) == (least == "suspended")
