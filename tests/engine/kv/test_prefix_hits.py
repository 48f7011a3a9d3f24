"""Which tokens count as computed, who may write where, and when a block is shared."""

import pytest

from engine.kv.contract import BlockCopy
from tests.engine.kv.desk import Answer, Desk, outcome

LONG = list(range(100, 140))


@pytest.mark.parametrize(
    ("cached", "asked", "hit"),
    [
        (8, 8, 7),
        (9, 9, 8),
        (7, 7, 4),
        (8, 9, 8),
        (8, 7, 4),
        (12, 11, 8),
        (16, 40, 16),
        (3, 3, 0),
        (1, 1, 0),
        (4, 4, 3),
        (4, 5, 4),
        (5, 4, 3),
    ],
)
def test_a_repeat_computes_at_least_one_token(cached: int, asked: int, hit: int) -> None:
    """nano-vllm#144, transformers PR#42094: also at exact multiples of a block."""
    desk = Desk()
    desk.serve(LONG[:cached])
    assert desk.hit(LONG[:asked]) == hit


def test_a_full_hit_writes_nowhere_shared() -> None:
    desk = Desk()
    desk.serve(LONG[:8])
    again = desk.answer(LONG[:8])
    assert desk.start(again)
    assert (again.num_computed, again.write_from) == (7, 8)
    assert desk.step(again)
    again.output_ids.append(1)
    assert desk.step(again)
    assert len(again.tables[0]) == 3


def test_a_prompt_is_shared_while_its_first_reader_still_runs() -> None:
    desk = Desk()
    first, second = desk.answer(LONG[:12]), desk.answer(LONG[:12])
    assert desk.start(first)
    assert desk.step(first)
    assert desk.start(second)
    assert second.num_computed == 11
    assert second.tables[0] == first.tables[0]
    assert desk.kv.usage().blocks_used == 3


def test_chunks_are_shared_as_they_are_computed() -> None:
    desk = Desk()
    first, second = desk.answer(LONG[:16]), desk.answer(LONG[:16])
    assert desk.start(first)
    assert desk.step(first, 10)
    assert desk.start(second)
    assert second.num_computed == 8


def test_nothing_is_shared_before_it_is_computed() -> None:
    desk = Desk()
    first, second = desk.answer(LONG[:12]), desk.answer(LONG[:12])
    assert desk.start(first)
    assert desk.start(second)
    assert second.num_computed == 0
    assert not set(first.tables[0]) & set(second.tables[0])
    assert desk.step(first)
    assert desk.step(second)
    desk.finish(first)
    desk.finish(second)
    assert desk.kv.usage().blocks_cached == 3


def test_a_step_that_fails_publishes_nothing() -> None:
    desk = Desk()
    first = desk.answer(LONG[:12])
    assert desk.start(first)
    desk.finish(first)
    assert desk.hit(LONG[:12]) == 0


def test_what_was_generated_is_found_in_the_next_turn() -> None:
    desk = Desk()
    first = desk.answer(LONG[:6])
    assert desk.start(first)
    for token in (1, 2, 3, 4, 5, 6, 7):
        assert desk.step(first)
        first.output_ids.append(token)
    desk.finish(first)
    assert desk.hit([*LONG[:6], 1, 2, 3, 4, 5, 6, 7, 8, 9]) == 12


def test_only_what_follows_an_edit_is_computed() -> None:
    desk = Desk()
    desk.serve(LONG)
    assert desk.hit([*LONG[:17], 1, *LONG[18:]]) == 16


def test_a_shared_part_of_a_block_is_copied() -> None:
    desk = Desk(block_size=8)
    desk.serve(LONG[:16])
    answer = desk.answer([*LONG[:13], 1, 2])
    assert desk.start(answer)
    (copy,) = desk.kv.take_transfers().copies
    assert (answer.num_computed, answer.write_from) == (13, 13)
    assert copy == BlockCopy(0, copy.source, answer.tables[0][1], 5)
    assert copy.source not in answer.tables[0]
    desk.carry_out(type(desk.kv.take_transfers())(copies=(copy,)))
    assert desk.step(answer)
    desk.finish(answer)


def test_a_few_tokens_are_not_worth_a_copy() -> None:
    desk = Desk(block_size=8)
    desk.serve(LONG[:16])
    assert desk.hit([*LONG[:11], 1, 2]) == 8


def test_a_copy_does_not_keep_a_prompt_out() -> None:
    """The source of a copy is held besides the prompt's own blocks; where that is too much, nothing is copied."""
    desk = Desk(block_size=8, blocks=2)
    desk.serve(LONG[:16])
    assert desk.hit([*LONG[:6], *range(9)]) == 0


def test_matched_blocks_are_held_before_others_are_given_up() -> None:
    """vllm#42948: the oldest cached blocks are the very ones that were just matched."""
    desk = Desk(blocks=6)
    desk.serve(LONG[:12])
    desk.serve(range(12))
    assert desk.hit([*LONG[:12], *range(500, 512)]) == 12


def test_a_prompt_that_does_not_fit_changes_nothing() -> None:
    desk = Desk(blocks=4)
    first = desk.answer(LONG[:12])
    assert desk.start(first)
    assert desk.step(first)
    before = desk.kv.usage()
    second = desk.answer([*LONG[:8], *range(12)])
    assert not desk.start(second)
    assert (second.tables, second.prefix, second.num_computed) == ([], None, 0)
    assert desk.kv.usage() == before
    desk.check()


def test_a_hit_is_counted_once_over_preemptions() -> None:
    """nano-vllm PR#211 and #233: the hit after a preemption is another one, and is used but not counted."""
    desk = Desk()
    desk.serve(LONG[:8])
    answer = desk.answer(LONG[:16])
    assert desk.start(answer)
    assert desk.step(answer)
    desk.finish(answer)
    assert desk.start(answer)
    assert answer.num_computed == 15
    assert outcome(answer).hit_tokens == 8
    usage = desk.kv.usage()
    assert (usage.query_tokens, usage.hit_tokens["device"]) == (24, 8)


def test_a_resumed_answer_computes_its_newest_token() -> None:
    """nano-vllm PR#217: prompt and output at a block's edge after a preemption."""
    desk = Desk()
    answer = desk.answer(LONG[:7])
    assert desk.start(answer)
    assert desk.step(answer)
    answer.output_ids.append(1)
    assert desk.step(answer)
    answer.output_ids.append(2)
    desk.finish(answer)
    assert desk.start(answer)
    assert (answer.num_computed, len(answer.tokens)) == (8, 9)
    assert desk.step(answer)


def test_a_reader_that_wants_every_logit_reads_nothing() -> None:
    """vllm#8268 and its kin: prompt log-probabilities need every position computed."""
    desk = Desk()
    desk.serve(LONG[:12])
    assert desk.hit(LONG[:12], read=False) == 0
    assert desk.kv.usage().query_tokens == 12
    assert desk.hit(LONG[:12]) == 11


def test_reused_tokens_are_counted_exactly() -> None:
    """llama.cpp#15082, vllm#18149: the counter of reused tokens is what was not computed."""
    desk = Desk()
    hits = [desk.hit(LONG[:length]) for length in (12, 12, 30, 40)]
    assert hits == [0, 11, 12, 28]
    assert desk.kv.usage().hit_tokens == {"device": sum(hits), "host": 0}
    assert desk.kv.usage().written_tokens == 40


def test_hits_in_whole_units() -> None:
    desk = Desk()
    desk.serve(LONG)
    answer = desk.answer(LONG)
    answer.hit_unit = 16
    assert desk.start(answer)
    assert (answer.num_computed, answer.write_from, outcome(answer).miss) == (32, 32, None)
    assert desk.step(answer)


def test_blocks_behind_the_bound_are_not_cached() -> None:
    desk = Desk()
    first = desk.answer(LONG[:16])
    first.cache_upto = 9
    assert desk.start(first)
    assert desk.step(first)
    desk.finish(first)
    assert desk.hit(LONG[:16]) == 8


def test_untrusted_numbers_are_forgotten() -> None:
    desk = Desk()
    desk.serve(LONG[:8])
    bad, reader = desk.answer(LONG[:16]), desk.answer(LONG[:20])
    assert desk.start(bad)
    assert desk.step(bad)
    assert desk.start(reader)
    assert reader.num_computed == 16
    desk.kv.discard(bad, 0.0)
    desk.live.remove(bad)
    desk.check()
    assert desk.step(reader)
    desk.finish(reader)
    assert desk.hit(LONG[:16]) == 8


def test_an_answer_is_released_once() -> None:
    """vllm#25067: a late abort finds nothing to do."""
    desk = Desk()
    answer = desk.answer(LONG[:8])
    assert desk.start(answer)
    desk.finish(answer)
    desk.kv.release(answer, 0.0)
    desk.kv.release(Answer(99, (1,)), 0.0)
    desk.check()
    assert desk.kv.num_free == desk.blocks


def test_an_answer_cannot_hold_twice() -> None:
    desk = Desk()
    answer = desk.answer(LONG[:8])
    assert desk.start(answer)
    with pytest.raises(ValueError, match="holds blocks already"):
        desk.kv.admit(answer, 8, 0.0)


def test_what_is_larger_than_the_pool_can_never_be_held() -> None:
    """vllm#1534, sglang#28530: so it can be refused at the door."""
    desk = Desk(blocks=4)
    assert desk.kv.can_hold(16)
    assert not desk.kv.can_hold(17)


def test_fragmentation_is_the_empty_part_of_held_blocks() -> None:
    desk = Desk()
    answer = desk.answer(LONG[:9])
    assert desk.start(answer)
    assert desk.step(answer)
    assert desk.kv.usage().fragmentation == pytest.approx(3 / 12)
    desk.finish(answer)
    assert desk.kv.usage().fragmentation == 0
