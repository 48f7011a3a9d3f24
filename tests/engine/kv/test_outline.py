"""The outline of the prefix trees: right in its sums, ordered by use, bounded, and without a token in it."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kv import outline as outlines
from engine.kv.outline import Run, TenantOutline
from engine.kv.wishes import Breakpoint, Retention
from tests.engine.kv.desk import Desk

SYSTEM = list(range(12))
BLOCK = 4


def told(desk: Desk, most_tenants: int = 10, most_runs: int = 100) -> dict[str, TenantOutline]:
    """By salt."""
    return {one.salt: one for one in desk.kv.outline(most_tenants, most_runs).told}


def test_a_prompt_that_two_questions_share_is_a_run_with_two_continuations() -> None:
    desk = Desk(blocks=64)
    for question in (100, 200, 100):
        desk.serve([*SYSTEM, *range(question, question + 8), 999], "a")
    start, first, second = told(desk)["a"].runs
    assert start == Run(0, None, 0, 12, uses=2, saved_tokens=2 * 12, continuations=2, pinned_tokens=0)
    assert first == Run(1, 0, 12, 8, uses=1, saved_tokens=8, continuations=0, pinned_tokens=0)
    assert second == Run(2, 0, 12, 8, uses=0, saved_tokens=0, continuations=0, pinned_tokens=0)


def test_tenants_are_told_apart_and_the_largest_first() -> None:
    desk = Desk(blocks=64)
    for salt, tokens in (("small", 8), ("large", 32), ("middle", 16)):
        desk.serve(range(tokens), salt)
    found = desk.kv.outline(2, 100)
    assert [(one.salt, one.blocks) for one in found.told] == [("large", 8), ("middle", 4)]
    assert (found.tenants, found.block_size) == (3, BLOCK)
    assert desk.kv.purge("large") == 8
    assert [one.salt for one in desk.kv.outline(2, 100).told] == ["middle", "small"]


def test_what_a_breakpoint_protects_is_told() -> None:
    desk = Desk(blocks=64, retention=Retention(pinned_share=0.5))
    desk.serve(SYSTEM, "a", breakpoints=(Breakpoint(8, 300.0),))
    (run,) = told(desk)["a"].runs
    assert (run.tokens, run.pinned_tokens) == (12, 8)


def test_of_many_runs_those_found_most_often_are_told() -> None:
    desk = Desk(blocks=256)
    for start in range(1000, 1000 + 20 * 8, 8):
        desk.serve(range(start, start + 8), "rare")
    for _ in range(5):
        desk.serve(SYSTEM, "often")
    found = told(desk, most_runs=3)
    assert [run.uses for run in found["often"].runs] == [4]
    assert [run.uses for run in found["rare"].runs] == [0, 0]


def test_an_outline_looks_at_so_many_blocks_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlines, "MOST_BLOCKS", 5)
    desk = Desk(blocks=64)
    desk.serve(range(16), "a")
    desk.serve(range(16, 32), "a")
    desk.serve(range(32, 48), "a")
    assert [run.tokens for run in told(desk)["a"].runs] == [16, 4]


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.lists(st.integers(0, 2), min_size=1, max_size=24)),
        min_size=1,
        max_size=30,
    )
)
def test_the_runs_of_a_tenant_make_up_its_tree(prompts: list[tuple[str, list[int]]]) -> None:
    desk = Desk(blocks=512)
    for salt, tokens in prompts:
        desk.serve(tokens, salt)
    for one in desk.kv.outline(10, 1000).told:
        assert sum(run.tokens for run in one.runs) == BLOCK * one.blocks
        for run in one.runs:
            continued = [other for other in one.runs if other.parent == run.number]
            assert len(continued) == run.continuations != 1
            assert all(other.start == run.start + run.tokens for other in continued)
            assert sum(other.uses for other in continued) <= run.uses
            assert run.saved_tokens <= run.uses * run.tokens
            assert all(number >= 0 for number in dataclasses.astuple(run) if number is not None)
