"""Prices are found by name, never guessed, and money adds up to the last picodollar."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.ledger import PriceRow, PriceTable, Split, cost, pico_per_token, read_price_rows, usd, worth

DATA = Path(__file__).resolve().parents[3] / "policies" / "ledger" / "data" / "prices.json"
TABLE = PriceTable(read_price_rows(DATA.read_bytes()))
splits = st.builds(Split, *[st.integers(0, 300_000)] * 8)


def test_every_row_says_where_and_when_it_was_read() -> None:
    names = [model for row in TABLE.rows for model in row.models]
    assert len(names) == len(set(names))
    for row in TABLE.rows:
        assert row.source.startswith("https://")
        assert row.as_of >= "2026-01"
        assert row.smaller is None or TABLE.of(row.smaller) is not None
        price = row.price()
        assert price.read <= price.input <= price.write_5m <= price.write_1h


@pytest.mark.parametrize(
    ("model", "input_usd"),
    [
        ("gpt-5-mini", 250_000),
        ("GPT-5-mini-2025-08-07", 250_000),
        ("openai/gpt-5-mini", 250_000),
        ("gpt-4o-2024-05-13", 5_000_000),
        ("gpt-4o-2024-11-20", 2_500_000),
        ("claude-sonnet-4-5-20250929", 3_000_000),
        ("claude-3-5-haiku-latest", 800_000),
        ("gemini-2.5-flash-preview-09-2025", 300_000),
    ],
)
def test_a_date_behind_a_name_changes_nothing(model: str, input_usd: int) -> None:
    price = TABLE.of(model)
    assert price is not None
    assert price.input == input_usd


@pytest.mark.parametrize("model", ["gpt-5.9", "gpt-5-mini-turbo", "claude-sonnet-9", "smollm2", "", "*", "-"])
def test_what_is_not_listed_has_no_price(model: str) -> None:
    assert TABLE.of(model) is None


def test_settings_come_first_and_may_use_patterns() -> None:
    mine = PriceRow(models=("llama-*", "gpt-5-mini"), input="0.1", output="0.2")
    table = PriceTable([mine, *TABLE.rows])
    for model in ("llama-3.1-8b", "meta/llama-4", "gpt-5-mini"):
        price = table.of(model)
        assert price is not None
        assert (price.input, price.read, price.write_1h, price.output) == (100_000, 100_000, 100_000, 200_000)


def test_a_long_prompt_has_a_price_of_its_own() -> None:
    price = TABLE.of("claude-haiku-5-5")
    assert price is not None
    assert cost(Split(100_000, 0, 0, 0, 0, 0, 0, 10), price) == 100_000 * 100_000 + 10 * 500_000
    assert cost(Split(100_001, 0, 0, 0, 0, 0, 0, 10), price) == 100_001 * 500_000 + 10 * 2_500_000


@pytest.mark.parametrize("bad", ["", "x", "-1", "0.0000001", "NaN", "Infinity", "1e9"])
def test_a_bad_price_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="price"):
        pico_per_token(bad)


@given(st.integers(-(10**20), 10**20))
def test_dollars_are_exact(pico: int) -> None:
    whole, _, decimals = usd(abs(pico)).partition(".")
    assert int(whole) * 10**12 + int(decimals.ljust(12, "0") or 0) == abs(pico)
    assert usd(pico).startswith("-") == (pico < 0)


@given(splits)
def test_what_was_saved_is_never_more_than_what_was_paid(split: Split) -> None:
    for row in TABLE.rows:
        assert 0 <= worth(split, row.price()) <= cost(split, row.price())
