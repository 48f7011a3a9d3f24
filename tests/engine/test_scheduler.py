"""Who runs next: budget, admission, preemption that progresses, and books that always hold."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.config import EngineConfig
from engine.errors import EngineError, RequestError
from engine.kv.block_pool import BlockPool
from engine.sampling import SamplingParams
from engine.scheduler import Scheduler
from engine.sequence import Sequence, Status
from engine.work import Plan
from tests.engine import tiny


def make(kv_tokens: int = 64, **changes: object) -> Scheduler:
    config = tiny.small_config(kv_tokens=kv_tokens, **changes)
    return Scheduler(config, BlockPool(config.num_blocks, config.block_size), 1024)


def sequence(seq_id: int, prompt: int, answer: int = 8) -> Sequence:
    return tiny.new_sequence(seq_id, tuple(range(prompt)), SamplingParams(max_tokens=answer, temperature=0))


def advance(scheduler: Scheduler) -> Plan:
    """One step in which every sampled token is 7, and answers end at their length."""
    plan = scheduler.plan()
    sampling = [item.sequence for item in plan.work if item.samples]
    scheduler.computed(plan)
    for one in sampling:
        one.output_ids.append(7)
        if len(one.output_ids) == one.params.max_tokens:
            scheduler.finish(one)
    scheduler.check()
    return plan


def spans(plan: Plan) -> list[tuple[int, int, int]]:
    return [(item.sequence.seq_id, item.start, item.count) for item in plan.work]


def test_a_request_that_can_never_fit_is_refused_at_once() -> None:
    scheduler = make(kv_tokens=64)
    with pytest.raises(RequestError, match="maximum context length is 64 tokens") as caught:
        scheduler.add(sequence(0, prompt=60, answer=5))
    assert (caught.value.status, caught.value.code) == (400, "context_length_exceeded")
    scheduler.add(sequence(1, prompt=60, answer=4))


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


def test_decodes_come_first_and_prefill_waits_for_a_whole_chunk_of_budget() -> None:
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


def test_admission_waits_for_blocks_and_is_not_overtaken() -> None:
    scheduler = make(kv_tokens=64)
    scheduler.add(sequence(0, prompt=40, answer=20))
    scheduler.add(sequence(1, prompt=40))
    scheduler.add(sequence(2, prompt=1))
    for _ in range(5):
        advance(scheduler)
    assert [one.seq_id for one in scheduler.running] == [0]


def test_the_latest_arrival_gives_way_and_still_finishes() -> None:
    scheduler = make(kv_tokens=32)
    both = [sequence(0, prompt=8, answer=20), sequence(1, prompt=8, answer=20)]
    for one in both:
        scheduler.add(one)
    preempted = [one.seq_id for _ in range(200) if scheduler.has_work for one in advance(scheduler).preempted]
    assert preempted
    assert set(preempted) == {1}
    assert [len(one.output_ids) for one in both] == [20, 20]
    assert scheduler.pool.num_used == 0


def test_a_preempted_sequence_keeps_its_answer_and_is_computed_again() -> None:
    scheduler = make(kv_tokens=16, max_running=2)
    first, second = sequence(0, prompt=4, answer=12), sequence(1, prompt=4, answer=12)
    scheduler.add(first)
    scheduler.add(second)
    while not advance(scheduler).preempted:
        pass
    kept = list(second.output_ids)
    assert kept
    assert (second.status, second.num_computed, second.tables) == (Status.WAITING, 0, [])
    while second.status is Status.WAITING:
        plan = advance(scheduler)
    assert spans(plan)[-1] == (1, 0, 4 + len(kept))
    assert second.output_ids[: len(kept)] == kept


def test_finish_is_idempotent_in_every_state() -> None:
    scheduler = make()
    one, other = sequence(0, prompt=8), sequence(1, prompt=8)
    scheduler.add(one)
    scheduler.add(other)
    assert scheduler.finish(other)
    advance(scheduler)
    assert scheduler.finish(one)
    assert not scheduler.finish(one)
    assert scheduler.pool.num_free == scheduler.pool.num_blocks
    assert not scheduler.has_work


def test_limits_without_progress_are_refused() -> None:
    with pytest.raises(EngineError, match="one chunk beside every running sequence"):
        EngineConfig(step_tokens=100)
    with pytest.raises(EngineError, match="at least one block"):
        EngineConfig(kv_tokens=8)


class SchedulerMachine(RuleBasedStateMachine):
    """Arrivals, steps and departures at random over a pool that is too small."""

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = make(kv_tokens=48, max_running=3, step_tokens=19)
        self.everyone: list[Sequence] = []

    @rule(prompt=st.integers(1, 30), answer=st.integers(1, 18))
    def arrive(self, prompt: int, answer: int) -> None:
        one = sequence(len(self.everyone), prompt, answer)
        self.scheduler.add(one)
        self.everyone.append(one)

    @rule()
    def step(self) -> None:
        had_work, before = self.scheduler.has_work, [*self.scheduler.running, *self.scheduler.waiting]
        oldest = before[0].num_computed if before else 0
        plan = advance(self.scheduler)
        assert bool(plan.work) == had_work
        assert sum(item.count for item in plan.work) <= self.scheduler.config.step_tokens
        assert not (plan.admitted and plan.preempted)
        if before:
            assert before[0].status is Status.FINISHED or before[0].num_computed > oldest

    @precondition(lambda self: self.everyone)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.everyone))
        was_finished = one.status is Status.FINISHED
        assert self.scheduler.finish(one) is not was_finished

    @invariant()
    def books_hold(self) -> None:
        self.scheduler.check()

    def teardown(self) -> None:
        for _ in range(2000):
            if not self.scheduler.has_work:
                break
            advance(self.scheduler)
        assert not self.scheduler.has_work
        assert self.scheduler.pool.num_used == 0


TestSchedulerMachine = SchedulerMachine.TestCase
TestSchedulerMachine.settings = settings(max_examples=60, stateful_step_count=40)
