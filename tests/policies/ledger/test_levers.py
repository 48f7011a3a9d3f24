"""Which lever pays: counted savings first, honest bounds, and unknown where nobody counted."""

from policies.intervals import Interval
from policies.ledger import FIGURES, Price, PriceRow, PriceTable, Split, call_line, named
from policies.ledger.levers import Lever, Observed, Range, Traffic, levers

ROW = PriceRow(("big",), "3", "15", "0.3", "3.75", "6", smaller="small")
TABLE = PriceTable([ROW, PriceRow(("small",), "1", "5", "0.1", "1.25", "2")])
PRICE = ROW.price()


def called(split: Split, price: Price | None) -> dict[str, int]:
    line = call_line(split, price, call_us=1)
    return named([0] * 9 + [*line, *[0] * (len(FIGURES) - 9 - len(line))])


def answered(saved_pico: int, tokens: int) -> dict[str, int]:
    return dict.fromkeys(FIGURES, 0) | {"requests": 1, "prompt_tokens": tokens, "saved_pico": saved_pico}


def by_name(found: list[Lever]) -> dict[str, Lever]:
    return {lever.name.partition(" ")[0]: lever for lever in found}


def test_without_traffic_nothing_is_claimed() -> None:
    found = by_name(levers(Traffic({}, {}), TABLE))
    assert len(found) == 6
    assert found["exact"].more_pico is None
    assert found["semantic"].more_tokens is None
    assert found["smaller"].more_pico is None
    assert all(lever.saved_pico in (0, None) and not lever.saved_tokens for lever in found.values())


def test_what_saved_most_comes_first() -> None:
    layers = {"exact": answered(5 * 10**12, 900), "coalesced": answered(10**12, 100)}
    calls = {("up", "big"): called(Split(10_000, 0, 0, 0, 1_000_000, 0, 0, 100), PRICE)}
    found = levers(Traffic(layers, calls), TABLE)
    assert [lever.name for lever in found[:3]] == [
        "exact",
        "provider prompt cache and prompt layout",
        "coalescing",
    ]
    cache = found[1]
    assert (cache.saved_tokens, cache.saved_pico) == (1_000_000, 1_000_000 * 2_700_000)
    assert (cache.more_tokens, cache.more_pico) == (Range(0, 10_000), Range(0, 10_000 * 2_700_000))


def test_a_doctor_narrows_what_layout_may_save() -> None:
    calls = {("up", "big"): called(Split(10_000, 0, 0, 0, 0, 0, 0, 0), PRICE)}
    cache = by_name(levers(Traffic({}, calls, lost=Interval(0.4, 0.5)), TABLE))["provider"]
    assert cache.more_pico == Range(4_000 * 2_700_000, 5_000 * 2_700_000)


def test_observation_gives_bounds_around_what_it_saw() -> None:
    calls = {("up", "big"): called(Split(10_000, 0, 0, 0, 0, 0, 0, 0), PRICE)}
    observed = {"exact": Observed(1_000, 250, 50_000), "semantic": Observed(750, 75, 15_000)}
    found = by_name(levers(Traffic({}, calls, observed=observed), TABLE))
    exact, semantic = found["exact"], found["semantic"]
    assert exact.more_tokens is not None
    assert exact.more_pico is not None
    assert 40_000 < exact.more_tokens.low < 50_000 < exact.more_tokens.high < 60_000
    assert exact.more_pico.low <= 50_000 * 3_000_000 <= exact.more_pico.high
    assert semantic.more_tokens is not None
    assert semantic.more_tokens.low == 0, "its error budget may keep any of it from being served"


def test_the_engine_counts_apart_and_without_a_price_in_tokens() -> None:
    calls = {("engine", "smollm2"): called(Split(100, 300, 20, 3, 0, 0, 0, 9), None)}
    found = by_name(levers(Traffic({}, calls, frozenset({"engine"})), TABLE))
    engine = found["engine"]
    assert (engine.saved_tokens, engine.saved_pico) == (323, None)
    assert (engine.more_tokens, engine.more_pico) == (Range(0, 100), None)
    assert found["provider"].saved_tokens == 0
    assert engine.as_json()["saved_usd"] is None


def test_a_smaller_model_saves_at_best_the_difference() -> None:
    calls = {("up", "big"): called(Split(1_000, 0, 0, 0, 1_000, 0, 0, 100), PRICE)}
    smaller = by_name(levers(Traffic({}, calls), TABLE))["smaller"]
    more = 1_000 * 2_000_000 + 1_000 * 200_000 + 100 * 10_000_000
    assert smaller.more_pico == Range(0, more)
    assert smaller.as_json()["more_usd"] == ["0", "0.0032"]
    assert "big → small" in smaller.basis
