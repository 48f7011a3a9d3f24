"""Layers that look back a window: what a hit needs, what is given back, and when."""

import pytest

from engine.kv.contract import NULL_BLOCK, KvGroup
from engine.kv.lookup import first_visible
from tests.engine.kv.desk import FULL, Desk, small_host

WINDOW = KvGroup((1,), window=6)
PROMPT = list(range(32))


@pytest.mark.parametrize(
    ("position", "window", "first"),
    [(0, 6, 0), (5, 6, 0), (8, 6, 0), (9, 6, 1), (12, 6, 1), (13, 6, 2), (100, None, 0), (8, 1, 2), (7, 1, 1)],
)
def test_the_first_block_in_sight(position: int, window: int | None, first: int) -> None:
    assert first_visible(position, window, 4) == first


@pytest.mark.parametrize("groups", [(FULL, WINDOW), (WINDOW,)])
def test_blocks_out_of_sight_are_given_back_once(groups: tuple[KvGroup, ...]) -> None:
    """sglang#25805, #27586: freed once per group, and the books prove it."""
    desk = Desk(groups=groups)
    answer = desk.answer(PROMPT[:10])
    assert desk.start(answer)
    assert desk.step(answer)
    for token in range(20):
        answer.output_ids.append(token)
        assert desk.step(answer)
    table = answer.tables[-1]
    assert table[:6] == [NULL_BLOCK] * 6
    assert NULL_BLOCK not in table[6:]
    desk.finish(answer)
    assert desk.kv.num_free == desk.blocks


def test_a_hit_needs_only_what_is_in_sight() -> None:
    desk = Desk(groups=(FULL, WINDOW))
    desk.serve(PROMPT)
    answer = desk.answer([*PROMPT, 1, 2])
    assert desk.start(answer)
    assert answer.num_computed == 32
    assert answer.tables[1][:6] == [NULL_BLOCK] * 6
    assert NULL_BLOCK not in answer.tables[0]
    assert desk.step(answer)


@pytest.mark.parametrize(("shared", "hit"), [(32, 32), (31, 28), (28, 28), (27, 24), (24, 24)])
def test_prompts_that_part_in_the_last_block(shared: int, hit: int) -> None:
    """vllm#57610: a window model keeps the hit up to where they part, if the window before it is cached."""
    desk = Desk(groups=(FULL, WINDOW), blocks=32)
    desk.serve(PROMPT)
    assert desk.hit([*PROMPT[:shared], 99, 98, 97]) == hit


def test_a_window_that_was_given_up_shortens_the_hit() -> None:
    """The full group has all, the window group lacks the end: the hit moves back to where both can go on."""
    desk = Desk(groups=(FULL, WINDOW), blocks=12)
    desk.serve(PROMPT)
    window = desk.kv._cached.books[1].evictable.owners
    tree = desk.kv._cached.trees[""]
    for block, node in enumerate(window):
        if node is not None and node.depth == 7:
            desk.kv._cached.books[1].evictable.remove(block)
            desk.kv._cached._forget(node, 1, "capacity", (-1, 0))
            desk.kv._cached.books[1].pool.put_back(block)
    desk.check()
    assert len(tree.nodes) == 8
    assert desk.hit([*PROMPT, 1, 2]) == 28


def test_a_window_model_does_not_compute_everything_again() -> None:
    """llama.cpp#21749: the next turn finds the window of the one before."""
    desk = Desk(groups=(WINDOW,))
    answer = desk.answer(PROMPT[:20])
    assert desk.start(answer)
    assert desk.step(answer)
    desk.finish(answer)
    assert desk.hit([*PROMPT[:20], 1, 2, 3]) == 20


def test_a_window_hit_never_shows_another_prompts_blocks() -> None:
    """vllm-mlx#380 and its kin: with many prompts over few blocks everyone sees its own past; the desk checks."""
    desk = Desk(groups=(FULL, WINDOW), blocks=10)
    for turn in range(30):
        desk.serve([turn % 3, *PROMPT[: 12 + turn % 7]])


def test_windows_come_back_from_the_host() -> None:
    desk = Desk(groups=(FULL, WINDOW), blocks=8, host=small_host(64, groups=2))
    desk.serve(PROMPT)
    desk.serve(range(100, 132))
    answer = desk.answer([*PROMPT])
    assert desk.start(answer)
    assert answer.num_computed == 31
    transfers = desk.kv.take_transfers()
    assert {restore.group for restore in transfers.restores} == {0, 1}
    assert sum(restore.group == 1 for restore in transfers.restores) == 2
    desk.carry_out(transfers)
    assert desk.step(answer)
