"""Blocks are handed out once, counted by reference, and freed exactly once; lists over them stay whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kv.block_lists import NO_BLOCK, BlockLists
from engine.kv.block_pool import BlockPool


def test_a_block_is_not_let_go_of_twice() -> None:
    pool = BlockPool(2)
    block = pool.take()
    assert pool.let_go(block) == 0
    with pytest.raises(ValueError, match="free already"):
        pool.let_go(block)


def test_a_free_block_cannot_be_shared() -> None:
    with pytest.raises(ValueError, match="cannot be shared"):
        BlockPool(2).share(0)


def test_a_held_block_cannot_be_reclaimed() -> None:
    pool = BlockPool(2)
    with pytest.raises(ValueError, match="is held"):
        pool.reclaim(pool.take())


def test_a_shared_block_lives_until_its_last_holder_leaves() -> None:
    pool = BlockPool(2)
    block = pool.take()
    pool.share(block)
    assert (pool.let_go(block), pool.let_go(block)) == (1, 0)


def test_the_last_freed_block_is_taken_first() -> None:
    pool = BlockPool(100)
    first, second = pool.take(), pool.take()
    for block in (second, first):
        pool.let_go(block)
        pool.put_back(block)
    assert (pool.take(), pool.take()) == (first, second) == (0, 1)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.booleans()), max_size=80))
def test_lists_over_blocks_are_like_lists(steps: list[tuple[int, int, bool]]) -> None:
    lists = BlockLists(6)
    real = {lists.new_list(): list[int]() for _ in range(3)}
    for which, block, front in steps:
        home = lists.list_of(block)
        if home == NO_BLOCK:
            (lists.prepend if front else lists.append)(which, block)
            real[which].insert(0 if front else len(real[which]), block)
            with pytest.raises(ValueError, match="in a list already"):
                lists.append(which, block)
        else:
            lists.remove(block)
            real[home].remove(block)
            with pytest.raises(ValueError, match="in no list"):
                lists.remove(block)
        for number, blocks in real.items():
            assert list(lists.blocks(number)) == blocks
            assert lists.length(number) == len(blocks)
            assert lists.first(number) == (blocks[0] if blocks else NO_BLOCK)
