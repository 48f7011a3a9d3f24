"""Short seeded walks over every kind of cache; the long one is a command. And the same by Hypothesis."""

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engine.kv.contract import KvGroup
from engine.kv.retention import RETENTION
from tests.engine.kv.desk import FULL
from tests.engine.kv.walk import WINDOW, Walk, desk_of


@pytest.mark.parametrize("policy", RETENTION)
@pytest.mark.parametrize("groups", [(FULL,), (FULL, WINDOW), (WINDOW,)])
@pytest.mark.parametrize("host_blocks", [0, 30])
def test_anything_in_any_order(policy: str, groups: tuple[KvGroup, ...], host_blocks: int) -> None:
    """vllm#37076: among all else, no block is used anew while somebody holds it."""
    walk = Walk(desk_of(groups, policy, host_blocks, strict=host_blocks == 0), random.Random(5).randrange)
    for _ in range(600):
        walk.turn()
    walk.finish()
    assert min(walk.happened[name] for name in ("admit", "step", "fork", "preempt")) > 0
    assert sum(walk.happened[name] for name in ("fail", "purge", "distrust")) > 0
    assert (walk.happened["swap"] > 0) is (host_blocks > 0)
    assert sum(walk.desk.kv.usage().hit_tokens.values()) > 0


class CacheMachine(RuleBasedStateMachine):
    """Every action of a walk, its choices drawn by Hypothesis."""

    def __init__(self) -> None:
        super().__init__()
        self.draws = iter(())
        self.walk = Walk(desk_of((FULL, WINDOW), "hit-density", 20, strict=True), self._choose)

    def _choose(self, below: int) -> int:
        return next(self.draws, 0) % below

    @rule(
        action=st.sampled_from(
            ["submit", "admit", "advance", "fork", "end", "preempt", "swap", "fail", "distrust", "purge", "wait"]
        ),
        draws=st.lists(st.integers(0, 40), max_size=20),
    )
    def act(self, action: str, draws: list[int]) -> None:
        self.draws = iter(draws)
        getattr(self.walk, action)()

    @invariant()
    def books_hold(self) -> None:
        self.walk.desk.check()

    def teardown(self) -> None:
        self.walk.finish()


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(max_examples=25, stateful_step_count=40)
