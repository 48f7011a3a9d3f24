"""The outline of the prefix trees: right in its sums, ordered by use, bounded, without a token or a salt in it."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kv import outline as outlines
from engine.kv.contract import KvGroup
from engine.kv.outline import Run, TreeOutline, tree_name
from engine.kv.wishes import Retention
from tests.engine.kv.desk import FULL, Desk, keep

SYSTEM = list(range(12))
BLOCK = 4


def told(desk: Desk, most_trees: int = 10, most_runs: int = 100) -> dict[str, TreeOutline]:
    """By name of the tree."""
    return {one.name: one for one in desk.kv.outline(most_trees, most_runs).told}


def runs_of(desk: Desk, salt: str) -> tuple[Run, ...]:
    return told(desk)[tree_name(salt)].runs


def test_a_prompt_that_two_questions_share_is_a_run_with_two_continuations() -> None:
    desk = Desk(blocks=64)
    for question in (100, 200, 100):
        desk.serve([*SYSTEM, *range(question, question + 8), 999], "a")
    start, first, second = runs_of(desk, "a")
    assert start == Run(0, None, 0, 12, hits=2, saved_tokens=2 * 12, continuations=2, pinned_tokens=0)
    assert first == Run(1, 0, 12, 8, hits=1, saved_tokens=8, continuations=0, pinned_tokens=0)
    assert second == Run(2, 0, 12, 8, hits=0, saved_tokens=0, continuations=0, pinned_tokens=0)
    assert desk.kv.outline(10, 100).complete


def test_what_was_given_up_and_computed_again_saved_nothing() -> None:
    desk = Desk(blocks=4)
    for tokens in (range(13), range(100, 113), range(13)):
        desk.serve(tokens, "a")
    assert desk.kv.usage().hit_tokens.get("device", 0) == 0
    assert {(run.hits, run.saved_tokens) for run in runs_of(desk, "a")} == {(0, 0)}
    desk.serve(range(13), "a")
    assert [run.hits for run in runs_of(desk, "a")] == [1]


def test_trees_are_told_apart_and_the_largest_first() -> None:
    desk = Desk(blocks=64)
    for salt, tokens in (("small", 8), ("large", 32), ("middle", 16)):
        desk.serve(range(tokens), salt)
    found = desk.kv.outline(2, 100)
    assert [(one.name, one.blocks) for one in found.told] == [(tree_name("large"), 8), (tree_name("middle"), 4)]
    assert (found.trees, found.block_size, found.complete) == (3, BLOCK, False)
    assert desk.kv.purge("large") == 8
    assert [one.name for one in desk.kv.outline(2, 100).told] == [tree_name("middle"), tree_name("small")]


def test_a_tree_that_holds_nothing_is_not_told() -> None:
    desk = Desk(blocks=64)
    answer = desk.answer([1, 2, 3], "a")
    assert desk.start(answer)
    found = desk.kv.outline(10, 100)
    assert (found.trees, found.told, found.complete) == (0, (), True)


def test_what_a_breakpoint_protects_is_told() -> None:
    desk = Desk(blocks=64, retention=Retention(pinned_share=0.5))
    desk.serve(SYSTEM, "a", breakpoints=keep(8))
    (run,) = runs_of(desk, "a")
    assert (run.tokens, run.pinned_tokens) == (12, 8)


def test_blocks_whose_prefix_was_given_up_are_told_too() -> None:
    desk = Desk(groups=(KvGroup((0,), window=4),), blocks=8)
    desk.serve(range(24), "a")
    desk.serve(range(100, 116), "b")
    (torn,) = runs_of(desk, "a")
    assert (torn.parent, torn.start, torn.tokens) == (None, 8, 16)
    desk.serve(range(8), "a")
    assert [(run.parent, run.start) for run in runs_of(desk, "a")] == [(None, 0), (None, 16)]


def test_of_many_runs_those_found_most_often_are_told() -> None:
    desk = Desk(blocks=256)
    for start in range(1000, 1000 + 20 * 8, 8):
        desk.serve(range(start, start + 8), "rare")
    for _ in range(5):
        desk.serve(SYSTEM, "often")
    found = told(desk, most_runs=3)
    assert [run.hits for run in found[tree_name("often")].runs] == [4]
    assert [run.hits for run in found[tree_name("rare")].runs] == [0, 0]
    assert not desk.kv.outline(10, 3).complete


def test_an_outline_goes_through_so_many_blocks_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlines, "MOST_BLOCKS", 5)
    desk = Desk(blocks=64)
    for start in (0, 16, 32):
        desk.serve(range(start, start + 16), "a")
    assert [run.tokens for run in runs_of(desk, "a")] == [16, 4]
    assert not desk.kv.outline(10, 100).complete


PROMPTS = st.tuples(st.sampled_from("ab"), st.lists(st.integers(0, 2), min_size=1, max_size=32))


@given(
    st.lists(st.one_of(PROMPTS, st.sampled_from("ab")), min_size=1, max_size=30),
    st.sampled_from([8, 12, 512]),
    st.sampled_from([(FULL,), (KvGroup((0,), window=6),), (KvGroup((0,), window=6), KvGroup((1,)))]),
)
def test_the_runs_of_a_tree_make_it_up(
    doings: list[tuple[str, list[int]] | str], blocks: int, groups: tuple[KvGroup, ...]
) -> None:
    """A text is a purge; small pools give up blocks, and windows tear trees."""
    desk, asked, found = Desk(groups=groups, blocks=blocks), 0, 0
    for doing in doings:
        if isinstance(doing, str):
            desk.kv.purge(doing)
            continue
        found += desk.hit(doing[1], doing[0])
        asked += 1
    outline = desk.kv.outline(10, 1000)
    assert outline.complete
    for one in outline.told:
        assert one.blocks > 0
        assert sum(run.tokens for run in one.runs) == BLOCK * one.blocks
        for run in one.runs:
            continued = [other for other in one.runs if other.parent == run.number]
            assert len(continued) == run.continuations != 1
            assert all(other.start == run.start + run.tokens for other in continued)
            assert run.hits <= asked
            assert run.saved_tokens % BLOCK == 0
            assert all(type(value) in {int, type(None)} for value in dataclasses.astuple(run))
    assert sum(run.saved_tokens for one in outline.told for run in one.runs) <= found + BLOCK * asked
