"""When a cache write pays, against the figures that the vendors' own rates give."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.ledger import Price, usd
from policies.ledger.break_even import at_random, break_even, evenly

SONNET = Price(3_000_000, 15_000_000, 300_000, 3_750_000, 6_000_000)
AUTOMATIC = Price(2_500_000, 10_000_000, 1_250_000, 2_500_000, 2_500_000)
prices = st.tuples(*[st.integers(0, 10**7)] * 4).map(
    lambda p: Price(p[0], 1, min(p[0], p[1]), p[0] + p[2], p[0] + p[3])
)


def test_one_read_pays_five_minutes_and_two_pay_an_hour() -> None:
    five, hour = break_even(SONNET, 50_000, 300), break_even(SONNET, 50_000, 3600)
    assert (five.reads_to_pay, hour.reads_to_pay) == (1, 2)
    assert five.most_write_share == pytest.approx(0.9 / 1.15)
    assert hour.most_write_share == pytest.approx(0.9 / 1.9)
    assert five.questions_an_hour == pytest.approx(2.94, abs=0.01)
    assert hour.questions_an_hour == pytest.approx(0.747, abs=0.001)
    assert (usd(five.fresh_pico), usd(five.write_pico), usd(five.read_pico)) == ("0.15", "0.1875", "0.015")


def test_the_worked_example_costs_90_percent_less() -> None:
    """A prefix of 50,000 tokens, 1,000 questions an hour."""
    hour = evenly(SONNET, 50_000, 1_000, 300)
    assert (hour.writes, hour.reads) == (1, 999)
    assert (usd(hour.without_pico), usd(hour.with_pico)) == ("150", "15.1725")
    assert hour.less == pytest.approx(0.899, abs=0.0005)
    assert at_random(SONNET, 50_000, 1_000, 300).less == pytest.approx(0.899, abs=0.0005)


def test_rare_questions_cost_more_with_a_cache_than_without() -> None:
    hour = evenly(SONNET, 50_000, 6, 300)
    assert (hour.writes, hour.reads) == (6, 0)
    assert hour.less == pytest.approx(-0.25)


def test_writes_that_cost_nothing_extra_always_pay() -> None:
    found = break_even(AUTOMATIC, 2_000, 300)
    assert (found.reads_to_pay, found.most_write_share, found.questions_an_hour) == (0, 1.0, 0.0)


def test_reads_without_a_discount_never_pay() -> None:
    found = break_even(Price(10, 1, 10, 20, 20), 2_000, 300)
    assert (found.reads_to_pay, found.most_write_share, found.questions_an_hour) == (None, 0.0, None)
    assert break_even(Price(10, 1, 10, 10, 10), 2_000, 300).reads_to_pay == 0
    assert evenly(SONNET, 50_000, 0, 300).less == at_random(SONNET, 50_000, 0, 300).less == 0.0


@given(prices, st.integers(1, 200_000), st.sampled_from([300, 3600]))
def test_reads_to_pay_are_the_fewest_that_do(price: Price, tokens: int, life_s: int) -> None:
    found = break_even(price, tokens, life_s)
    if found.reads_to_pay is None:
        assert price.read >= price.input
        return
    for reads in {max(0, found.reads_to_pay - 1), found.reads_to_pay}:
        cached = found.write_pico + reads * found.read_pico
        assert (cached <= (reads + 1) * found.fresh_pico) == (reads >= found.reads_to_pay)


@given(st.integers(1, 5_000), st.integers(1, 100_000), st.sampled_from([300, 3600]))
def test_every_question_reads_or_writes(questions: int, tokens: int, life_s: int) -> None:
    hour = at_random(SONNET, tokens, questions, life_s)
    assert hour.writes + hour.reads == pytest.approx(questions)
    assert 1 <= hour.writes <= questions
