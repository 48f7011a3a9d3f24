"""Branches share what they have in common, and each writes into blocks of its own."""

import pytest

from tests.engine.kv.desk import Answer, Desk

PROMPT = list(range(10))


def forked(desk: Desk, count: int, prompt: list[int]) -> list[Answer]:
    parent = desk.answer(prompt)
    assert desk.start(parent)
    assert desk.step(parent)
    family = [parent]
    for _ in range(count):
        child = desk.answer(prompt)
        desk.kv.fork(parent, child)
        desk.live.append(child)
        family.append(child)
    desk.check()
    return family


@pytest.mark.parametrize("length", [8, 9, 10, 11, 12])
def test_branches_share_the_prompt_and_part_in_the_open_block(length: int) -> None:
    desk = Desk()
    family = forked(desk, 3, list(range(length)))
    assert desk.kv.usage().blocks_used == -(-length // 4)
    for number, answer in enumerate(family):
        answer.output_ids.append(1000 + number)
        assert desk.step(answer)
    assert len({answer.tables[0][length // 4] for answer in family}) == 4
    assert desk.kv.usage().blocks_used == length // 4 + 4


def test_the_last_owner_writes_in_place() -> None:
    desk = Desk()
    parent, child = forked(desk, 1, PROMPT)
    shared = parent.tables[0][2]
    parent.output_ids.append(1)
    assert desk.step(parent)
    child.output_ids.append(2)
    assert desk.step(child)
    assert parent.tables[0][2] != shared
    assert child.tables[0][2] == shared


def test_a_branch_that_finds_no_block_changes_nothing() -> None:
    desk = Desk(blocks=3)
    parent, child = forked(desk, 1, PROMPT)
    before = list(child.tables[0])
    child.output_ids.append(1)
    assert not desk.step(child)
    assert child.tables[0] == before
    desk.finish(parent)
    assert desk.step(child)


def test_a_branch_outlives_its_parent() -> None:
    desk = Desk()
    parent, child = forked(desk, 1, PROMPT)
    desk.finish(parent)
    child.output_ids.append(1)
    assert desk.step(child)
    desk.finish(child)
    assert desk.kv.num_free == desk.blocks


def test_a_branch_of_a_branch() -> None:
    desk = Desk(blocks=32)
    _, child = forked(desk, 1, PROMPT)
    for token in range(6):
        child.output_ids.append(token)
        assert desk.step(child)
    grandchild = desk.answer(PROMPT)
    grandchild.output_ids = list(child.output_ids)
    desk.kv.fork(child, grandchild)
    desk.live.append(grandchild)
    grandchild.output_ids.append(7)
    child.output_ids.append(8)
    assert desk.step(grandchild)
    assert desk.step(child)


def test_a_branch_that_starts_before_its_parents_end_does_not_write_into_cached_blocks() -> None:
    desk = Desk()
    (parent,) = forked(desk, 0, PROMPT)
    for token in range(3):
        parent.output_ids.append(token)
        assert desk.step(parent)
    child = desk.answer(PROMPT)
    desk.kv.fork(parent, child)
    desk.live.append(child)
    desk.finish(parent)
    child.output_ids.append(99)
    assert desk.step(child)
    desk.finish(child)
    assert desk.hit([*PROMPT, 0, 1, 5]) == 12


def test_a_copy_that_will_not_take_place_lets_its_source_go() -> None:
    desk = Desk()
    parent, child = forked(desk, 1, PROMPT)
    child.output_ids.append(1)
    assert desk.kv.grow(child, 11)
    desk.check()
    desk.finish(child)
    assert desk.kv.take_transfers().copies == ()
    desk.finish(parent)
    assert desk.kv.num_free == desk.blocks
