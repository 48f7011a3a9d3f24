"""The order of a prefix tree's runs."""

from gateway.telemetry.prefix_runs import in_order


def test_a_run_is_followed_by_those_that_continue_it() -> None:
    parents = [None, 0, None, 0, 1]
    runs = [{"number": number, "parent": parent} for number, parent in enumerate(parents)]
    assert [(one["number"], one["depth"]) for one in in_order(runs)] == [(0, 0), (1, 1), (4, 2), (3, 1), (2, 0)]


def test_a_tree_of_any_depth_is_told() -> None:
    runs = [{"number": number, "parent": number - 1 if number else None} for number in range(5000)]
    assert [one["depth"] for one in in_order(runs)] == [*range(8), *[8] * (5000 - 8)]
