"""Who runs next: budget, cuts, admission, preemption."""

import pytest

from engine.config import EngineConfig
from engine.errors import EngineError, RequestError
from engine.sequence import Status
from tests.engine.scheduler.stepping import advance, drain, make, sequence, spans


def test_a_request_that_can_never_fit_is_refused_at_once() -> None:
    """vllm#1534, sglang#28530: it must not wait for ever, nor block others."""
    scheduler = make(kv_tokens=64)
    with pytest.raises(RequestError, match="maximum context length is 64 tokens") as caught:
        scheduler.add(sequence(0, prompt=60, answer=5))
    assert (caught.value.status, caught.value.code) == (400, "context_length_exceeded")
    scheduler.add(sequence(1, prompt=60, answer=4))
    drain(scheduler)


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(RequestError, match="empty"):
        make().add(sequence(0, prompt=0))


def test_a_prompt_is_always_cut_at_the_same_places() -> None:
    scheduler = make(kv_tokens=256)
    scheduler.add(sequence(0, prompt=40))
    assert [spans(advance(scheduler)) for _ in range(4)] == [
        [(0, 0, 16)],
        [(0, 16, 16)],
        [(0, 32, 8)],
        [(0, 40, 1)],
    ]


def test_where_any_cut_will_do_a_lone_prompt_takes_the_whole_budget() -> None:
    scheduler = make(kv_tokens=256, any_chunks=True, long_prefill=5)
    scheduler.add(sequence(0, prompt=40))
    assert [spans(advance(scheduler)) for _ in range(3)] == [[(0, 0, 32)], [(0, 32, 8)], [(0, 40, 1)]]


def test_a_long_prompt_leaves_the_others_their_share_and_takes_what_they_leave() -> None:
    scheduler = make(kv_tokens=1024, any_chunks=True, long_prefill=8)
    scheduler.add(sequence(0, prompt=200))
    scheduler.add(sequence(1, prompt=100))
    scheduler.add(sequence(2, prompt=6))
    assert spans(advance(scheduler)) == [(0, 0, 16), (1, 0, 10), (2, 0, 6)]
    assert sum(count for _, _, count in spans(advance(scheduler))) == 1 + 16


def test_decodes_come_first_and_bound_the_prompt_tokens_beside_them() -> None:
    scheduler = make(kv_tokens=256, any_chunks=True)
    scheduler.add(sequence(0, prompt=3))
    advance(scheduler)
    scheduler.add(sequence(1, prompt=40))
    scheduler.add(sequence(2, prompt=40))
    plan = advance(scheduler)
    assert spans(plan) == [(0, 3, 1), (1, 0, 16)]
    assert (plan.decoding, plan.prefill_tokens) == (1, 16)


def test_a_fixed_chunk_waits_for_a_budget_that_holds_it_whole() -> None:
    scheduler = make(kv_tokens=256, step_tokens=20)
    scheduler.add(sequence(0, prompt=3))
    advance(scheduler)
    scheduler.add(sequence(1, prompt=12))
    scheduler.add(sequence(2, prompt=12))
    assert spans(advance(scheduler)) == [(0, 3, 1), (1, 0, 12)]
    assert spans(advance(scheduler)) == [(0, 4, 1), (1, 12, 1), (2, 0, 12)]


def test_no_more_than_max_running_are_admitted_in_order() -> None:
    scheduler = make(kv_tokens=256, max_running=2)
    for seq_id in range(3):
        scheduler.add(sequence(seq_id, prompt=2, answer=2 + seq_id))
    assert [one.seq_id for one in advance(scheduler).admitted] == [0, 1]
    assert not advance(scheduler).admitted
    assert [one.seq_id for one in advance(scheduler).admitted] == [2]


def test_a_small_request_may_pass_a_large_one_that_finds_no_room_but_not_for_ever() -> None:
    scheduler = make(kv_tokens=64, max_skips=3)
    scheduler.add(sequence(0, prompt=24, answer=30))
    advance(scheduler)
    scheduler.add(sequence(1, prompt=40, answer=20))
    for seq_id in range(2, 12):
        scheduler.add(sequence(seq_id, prompt=2, answer=1))
    order = []
    for _ in range(60):
        order += [one.seq_id for one in advance(scheduler).admitted]
        if len(order) == 11:
            break
    assert order[:3] == [2, 3, 4]
    assert order[3] == 1
    assert sorted(order) == list(range(1, 12))


def test_the_worst_ranked_gives_way_and_still_finishes() -> None:
    """inference-sim#297: two that cannot run together do not preempt each other for ever."""
    scheduler = make(kv_tokens=32)
    both = [sequence(0, prompt=8, answer=20), sequence(1, prompt=8, answer=20)]
    for one in both:
        scheduler.add(one)
    preempted = [one.seq_id for _ in range(200) if scheduler.has_work for one in advance(scheduler).preempted]
    assert preempted
    assert set(preempted) == {1}
    assert [len(one.output_ids) for one in both] == [20, 20]


def test_a_better_priority_is_never_preempted_for_an_older_one() -> None:
    scheduler = make(kv_tokens=32)
    background, urgent = sequence(0, prompt=8, answer=20, priority=1), sequence(1, prompt=8, answer=20)
    scheduler.add(background)
    advance(scheduler)
    scheduler.add(urgent)
    while scheduler.has_work:
        assert urgent not in advance(scheduler).preempted
    assert background.num_preemptions > 0


def test_a_preempted_sequence_keeps_its_answer_and_samples_nothing_twice() -> None:
    scheduler = make(kv_tokens=16, max_running=2)
    first, second = sequence(0, prompt=4, answer=12), sequence(1, prompt=4, answer=12)
    scheduler.add(first)
    scheduler.add(second)
    while not advance(scheduler).preempted:
        pass
    kept = len(second.output_ids)
    assert kept
    assert (second.status, second.num_computed, second.tables) == (Status.WAITING, 0, [])
    while second.status is Status.WAITING:
        plan = advance(scheduler)
    start, count = next((item.start, item.count) for item in plan.work if item.sequence is second)
    assert start + count == 4 + kept
    assert len(second.output_ids) == kept + 1
    drain(scheduler)


@pytest.mark.parametrize("prompt", [3, 4, 5, 15, 16, 17])
def test_edges_after_a_preemption(prompt: int) -> None:
    """nano-vllm PR#217: the newest token at a block's edge is computed too."""
    scheduler = make(kv_tokens=2 * prompt + 12, max_running=2)
    pair = [sequence(seq_id, prompt=prompt, answer=10) for seq_id in range(2)]
    for one in pair:
        scheduler.add(one)
    drain(scheduler)
    assert [len(one.output_ids) for one in pair] == [10, 10]
    assert pair[1].num_preemptions


def test_finish_is_idempotent_in_every_state() -> None:
    scheduler = make()
    one, other = sequence(0, prompt=8), sequence(1, prompt=8)
    scheduler.add(one)
    scheduler.add(other)
    assert scheduler.finish(other, 0.0)
    advance(scheduler)
    assert scheduler.finish(one, 0.0)
    assert not scheduler.finish(one, 0.0)
    assert scheduler.kv.usage().blocks_used == 0
    assert not scheduler.has_work


def test_a_prompt_alone_asks_for_no_token() -> None:
    scheduler = make()
    one = sequence(0, prompt=20, answer=0)
    scheduler.add(one)
    for _ in range(2):
        plan = advance(scheduler) if one.num_computed < 16 else scheduler.plan(0.0)
    assert [item.samples for item in plan.work] == [False]


def test_limits_without_progress_are_refused() -> None:
    with pytest.raises(EngineError, match="must hold one chunk"):
        EngineConfig(step_tokens=100)
    with pytest.raises(EngineError, match="must hold one chunk"):
        EngineConfig(prefill_tokens=100)
    with pytest.raises(EngineError, match="at least one block"):
        EngineConfig(kv_tokens=8)


def test_a_tenant_may_fill_three_quarters_of_the_queue_or_what_it_is_told() -> None:
    assert EngineConfig(max_waiting=8).waiting_per_tenant == 6
    assert EngineConfig(max_waiting=1).waiting_per_tenant == 1
    assert EngineConfig(max_waiting=8, tenant_waiting=3).waiting_per_tenant == 3
