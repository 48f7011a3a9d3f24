"""Blocks are handed out once, counted by reference, and freed exactly once."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.errors import OutOfBlocks
from engine.kv.block_pool import BlockPool


def test_allocation_is_all_or_nothing() -> None:
    pool = BlockPool(4, 16)
    pool.allocate(3)
    with pytest.raises(OutOfBlocks, match="asked for 2 blocks, 1 free"):
        pool.allocate(2)
    assert (pool.num_free, pool.num_used) == (1, 3)


@pytest.mark.parametrize(("tokens", "blocks"), [(0, 0), (1, 1), (15, 1), (16, 1), (17, 2), (32, 2)])
def test_block_edges(tokens: int, blocks: int) -> None:
    assert BlockPool(4, 16).blocks_for(tokens) == blocks


def test_a_block_is_not_freed_twice() -> None:
    pool = BlockPool(2, 16)
    blocks = pool.allocate(1)
    pool.release(blocks)
    with pytest.raises(ValueError, match="free already"):
        pool.release(blocks)


def test_a_free_block_cannot_be_shared() -> None:
    with pytest.raises(ValueError, match="cannot be shared"):
        BlockPool(2, 16).share([0])


def test_a_shared_block_lives_until_its_last_holder_leaves() -> None:
    pool = BlockPool(2, 16)
    blocks = pool.allocate(1)
    pool.share(blocks)
    pool.release(blocks)
    pool.check([blocks])
    pool.release(blocks)
    pool.check([])


def test_used_blocks_are_used_again_before_untouched_ones() -> None:
    pool = BlockPool(100, 16)
    chain = pool.allocate(3)
    for _ in range(50):
        pool.release(chain)
        assert pool.allocate(3) == chain


def test_check_sees_a_lost_block() -> None:
    pool = BlockPool(2, 16)
    pool.allocate(1)
    with pytest.raises(AssertionError, match="reference counts"):
        pool.check([])


class PoolMachine(RuleBasedStateMachine):
    """Tables that grow, fork and end at random; the books hold after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(12, 4)
        self.tables: list[list[int]] = []

    @rule(count=st.integers(0, 6))
    def allocate(self, count: int) -> None:
        if count > self.pool.num_free:
            with pytest.raises(OutOfBlocks):
                self.pool.allocate(count)
        else:
            blocks = self.pool.allocate(count)
            assert len(set(blocks)) == count
            assert not any(block in table for table in self.tables for block in blocks)
            self.tables.append(blocks)

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        table = data.draw(st.sampled_from(self.tables))
        shared = table[: data.draw(st.integers(0, len(table)))]
        self.pool.share(shared)
        self.tables.append(list(shared))

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        self.pool.release(self.tables.pop(data.draw(st.integers(0, len(self.tables) - 1))))

    @invariant()
    def books_hold(self) -> None:
        self.pool.check(self.tables)
        assert self.pool.num_free + self.pool.num_used == self.pool.num_blocks


TestPoolMachine = PoolMachine.TestCase
TestPoolMachine.settings = settings(max_examples=40, stateful_step_count=40)
