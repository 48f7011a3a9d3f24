"""Sums are the same however lines are split over workers and batches, and say the same by layer and in total."""

from hypothesis import given
from hypothesis import strategies as st

from policies.ledger import (
    FIGURES,
    LAYERS,
    Key,
    Price,
    Split,
    Sums,
    add_answer,
    add_call,
    answer_line,
    call_line,
    cost,
    merge,
    named,
    usd,
    worth_of,
)
from policies.ledger.report import added, by_layer, cache_use, prompt_saved, totals

PRICE = Price(3_000_000, 15_000_000, 300_000, 3_750_000, 6_000_000)
splits = st.builds(Split, *[st.integers(0, 100_000)] * 8)
keys = st.builds(
    Key,
    st.integers(20_000, 20_002),
    st.sampled_from(["t1", "t2"]),
    st.sampled_from(["m", "*"]),
    st.sampled_from(["up", "engine"]),
    st.sampled_from(["a", "b"]),
    st.sampled_from(LAYERS),
)
answers = st.builds(
    lambda layer, status, split, price, spent, saved: (
        "answer",
        answer_line(layer, status, worth_of(split, price), spent, saved),
    ),
    st.sampled_from(LAYERS),
    st.sampled_from([200, 200, 429, 499, 500]),
    splits | st.none(),
    st.just(PRICE) | st.none(),
    st.integers(0, 10**8),
    st.integers(-5, 10**8),
)
calls = st.builds(
    lambda split, price, spent: ("call", call_line(split, price, call_us=spent)),
    splits | st.none(),
    st.just(PRICE) | st.none(),
    st.integers(0, 10**8),
)
lines = st.lists(st.tuples(keys, answers | calls, st.integers(0, 3), st.booleans()), max_size=40)


@given(lines)
def test_any_split_over_workers_and_batches_gives_the_same_sums(
    given_lines: list[tuple[Key, tuple[str, tuple[int, ...]], int, bool]],
) -> None:
    whole: Sums = {}
    stored: Sums = {}
    workers: list[Sums] = [{}, {}, {}, {}]
    for key, (kind, figures), worker, flush in given_lines:
        add = add_answer if kind == "answer" else add_call
        add(whole, key, figures)
        add(workers[worker], key, figures)
        if flush:
            merge(stored, workers[worker])
            workers[worker] = {}
    for rest in workers:
        merge(stored, rest)
    assert stored == whole


@given(st.lists(st.tuples(splits, st.just(PRICE) | st.none()), max_size=20))
def test_money_of_calls_is_what_each_cost(made: list[tuple[Split, Price | None]]) -> None:
    sums: Sums = {}
    key = Key(1, "t", "m", "up", "a", "model")
    for split, price in made:
        add_call(sums, key, call_line(split, price, call_us=1))
    found = added(named(tally) for tally in sums.values())
    paid = sum(cost(split, price) for split, price in made if price is not None)
    told = totals(found)
    unknown = made and all(price is None for _, price in made)
    assert told.cost_usd == (None if unknown else usd(paid))
    assert told.call_prompt_tokens == sum(split.prompt for split, _ in made)
    without = sum(
        split.prompt * PRICE.input + split.output * PRICE.output for split, price in made if price is not None
    )
    assert without - paid == prompt_saved(found)


def test_a_day_by_layer() -> None:
    sums: Sums = {}
    split = Split(1_000, 0, 0, 0, 50_000, 2_000, 0, 100)
    key = Key(1, "t", "m", "up", "a", "model")
    add_call(sums, key, call_line(split, PRICE, call_us=900_000))
    add_answer(sums, key, answer_line("model", 200, worth_of(split, PRICE), 901_000, 0))
    for _ in range(3):
        line = answer_line("exact", 200, worth_of(split, PRICE), 500, 899_500)
        add_answer(sums, key._replace(layer="exact"), line)
    shown = {line.layer: line for line in by_layer({key.layer: named(tally) for key, tally in sums.items()})}
    assert [*shown] == [
        *("exact", "semantic", "coalesced", "prefix_device", "prefix_ram", "prefix_disk"),
        *("provider_read", "provider_write", "fresh", "output"),
    ]
    exact = shown["exact"]
    assert (exact.requests, exact.tokens, exact.mean_ms) == (3, 3 * 53_100, 0.5)
    # what the model would have cost each time: 1,000 fresh, 52,000 read from its cache, 100 said
    assert exact.saved_usd == "0.0603"
    assert (shown["provider_read"].tokens, shown["provider_read"].saved_usd) == (50_000, "0.135")
    assert (shown["provider_write"].tokens, shown["provider_write"].saved_usd) == (2_000, "-0.0015")
    assert (shown["fresh"].cost_usd, shown["output"].cost_usd) == ("0.003", "0.0015")
    total = totals(added(named(tally) for tally in sums.values()))
    assert (total.requests, total.calls, total.cost_usd, total.saved_usd) == (4, 1, "0.027", "0.1938")
    use = cache_use(named(sums[key]))
    assert (use.reads, use.writes, use.fresh) == (50_000, 2_000, 1_000)
    assert use.hit_rate == 50_000 / 53_000
    assert use.write_share == 2_000 / 52_000


def test_an_unknown_model_has_tokens_and_no_money() -> None:
    sums: Sums = {}
    key = Key(1, "t", "m", "up", "a", "model")
    split = Split(10, 0, 0, 0, 0, 0, 0, 5)
    add_call(sums, key, call_line(split, None, call_us=1))
    add_answer(sums, key, answer_line("model", 200, worth_of(split, None), 1, 0))
    total = totals(named(sums[key]))
    assert (total.cost_usd, total.saved_usd, total.unpriced) == (None, None, 2)
    assert (total.prompt_tokens, total.call_completion_tokens) == (10, 5)
    assert all(line.cost_usd is None for line in by_layer({"model": named(sums[key])}) if line.requests is None)
    nothing = totals(dict.fromkeys(FIGURES, 0))
    assert (nothing.cost_usd, nothing.mean_ms) == ("0", None)


def test_a_call_that_told_nothing_is_counted_as_that() -> None:
    sums: Sums = {}
    key = Key(1, "t", "m", "up", "a", "model")
    add_call(sums, key, call_line(None, PRICE, call_us=7))
    found = named(sums[key])
    assert (found["calls"], found["calls_untold"], found["call_us"], sum(found.values())) == (1, 1, 7, 9)
