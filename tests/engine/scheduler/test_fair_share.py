"""Tokens go round between tenants, whatever they ask for."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from engine.scheduler.fair_share import FairShare


def test_two_tenants_get_equal_tokens_whatever_the_size_of_their_requests() -> None:
    shares, given_to = FairShare(quantum=64, max_debt=1000), Counter()
    for _ in range(600):
        tenant = shares.turn(["long", "short"])
        cost = {"long": 200, "short": 5}[tenant]
        shares.charge(tenant, cost)
        given_to[tenant] += cost
    assert abs(given_to["long"] - given_to["short"]) <= 64 + 200


def test_a_tenant_alone_always_has_its_turn() -> None:
    shares = FairShare(quantum=64, max_debt=1000)
    for _ in range(50):
        assert shares.turn(["only"]) == "only"
        shares.charge("only", 500)


def test_what_was_used_alone_is_not_held_against_a_tenant_for_long() -> None:
    shares = FairShare(quantum=10, max_debt=100)
    for _ in range(1000):
        shares.charge("old", 10)
    turns = []
    for _ in range(40):
        turns.append(shares.turn(["old", "new"]))
        shares.charge(turns[-1], 10)
    assert turns.index("old") <= 11
    assert abs(turns[20:].count("old") - turns[20:].count("new")) <= 2


def test_who_comes_back_starts_at_nothing() -> None:
    shares = FairShare(quantum=10, max_debt=100)
    shares.charge("gone", 100)
    shares.forget({"there"})
    assert shares.turn(["gone", "there"]) == "gone"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 300)), max_size=200), st.integers(1, 64))
def test_nobody_who_always_wants_waits_more_than_a_round_of_the_others(
    costs: list[tuple[str, int]], quantum: int
) -> None:
    """Between two turns of one tenant each other one is given less than a quantum and its largest cost."""
    shares, since = FairShare(quantum, 10**6), dict.fromkeys("abc", 0)
    sizes = iter(costs)
    for _, cost in sizes:
        tenant = shares.turn(["a", "b", "c"])
        shares.charge(tenant, cost)
        since = {name: 0 if name == tenant else waited + cost for name, waited in since.items()}
        largest = max(size for _, size in costs)
        assert max(since.values()) <= 2 * (2 * quantum + 2 * largest)
