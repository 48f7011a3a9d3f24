"""Fairness between tenants, ageing, and progress however little memory there is."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.sequence import Sequence, Status
from tests.engine.scheduler.stepping import advance, family, make, sequence


@pytest.mark.parametrize("any_chunks", [False, True])
def test_a_flooding_tenant_delays_another_by_no_more_than_its_turn(any_chunks: bool) -> None:
    scheduler = make(kv_tokens=1024, any_chunks=any_chunks)
    for seq_id in range(60):
        scheduler.add(sequence(seq_id, prompt=48, answer=4, tenant="flood"))
    for _ in range(10):
        advance(scheduler)
    late = [sequence(100 + index, prompt=16, answer=2, tenant="late") for index in range(4)]
    for one in late:
        scheduler.add(one)
    steps = 0
    while not all(one.status is Status.FINISHED for one in late):
        advance(scheduler)
        steps += 1
    assert steps < 40
    assert sum(one.tenant == "flood" for one in scheduler.waiting) > 30


def test_two_tenants_that_want_everything_get_equal_numbers_of_tokens() -> None:
    scheduler = make(kv_tokens=2048, any_chunks=True, max_running=8)
    for seq_id in range(200):
        tenant = "many short" if seq_id % 2 else "few long"
        scheduler.add(sequence(seq_id, prompt=7 if seq_id % 2 else 300, answer=1, tenant=tenant))
    computed = dict.fromkeys(("many short", "few long"), 0)
    for _ in range(15):
        for item in advance(scheduler).work:
            computed[item.sequence.tenant] += item.count
    assert abs(computed["many short"] - computed["few long"]) < 100


def test_who_sends_one_short_prompt_after_another_pays_for_them() -> None:
    scheduler = make(kv_tokens=2048, chunk_tokens=16, step_tokens=16, prefill_tokens=16, long_prefill=8)
    scheduler.add(sequence(0, prompt=900, answer=1, tenant="long"))
    computed = dict.fromkeys(("one at a time", "long"), 0)
    for seq_id in range(1, 41):
        if "one at a time" not in scheduler.waiting.tenants:
            scheduler.add(sequence(seq_id, prompt=16, answer=1, tenant="one at a time"))
        for item in advance(scheduler).work:
            computed[item.sequence.tenant] += item.count
    assert abs(computed["one at a time"] - computed["long"]) <= 64


def test_a_better_priority_goes_first_and_waiting_makes_up_for_a_worse_one() -> None:
    scheduler = make(kv_tokens=256, max_running=1, ageing_s=10)
    scheduler.add(sequence(0, prompt=4, priority=5, at_s=0))
    order: list[int] = []
    for second in range(120):
        scheduler.add(sequence(second + 1, prompt=4, answer=1, priority=0, at_s=second))
        order += [one.seq_id for one in advance(scheduler, float(second)).admitted]
        if order[-1:] == [0]:
            break
    assert 40 <= len(order) <= 60


def test_a_client_cannot_go_before_another_tenant() -> None:
    scheduler = make()
    pushy, modest, alone = (
        sequence(0, prompt=4, tenant="a", priority=-5),
        sequence(1, prompt=4, tenant="b", priority=5),
        sequence(2, prompt=4, priority=-5),
    )
    for one in (pushy, modest, alone):
        scheduler.add(one)
    assert [one.priority for one in (pushy, modest, alone)] == [0, 5, -5]


def test_the_backlog_of_one_tenant_does_not_age_past_anothers_new_request() -> None:
    scheduler = make(kv_tokens=256, max_running=1, ageing_s=1)
    for seq_id in range(50):
        scheduler.add(sequence(seq_id, prompt=16, answer=1, tenant="old"))
    advance(scheduler, 1000.0)
    scheduler.add(sequence(99, prompt=16, answer=1, tenant="new", at_s=1000.0))
    order = [one.seq_id for _ in range(6) for one in advance(scheduler, 1000.0).admitted]
    assert 99 in order


class SchedulerMachine(RuleBasedStateMachine):
    """Arrivals, families, steps and departures at random over a pool that is too small."""

    any_chunks = False

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = make(
            kv_tokens=48, any_chunks=self.any_chunks, max_running=3, step_tokens=20, long_prefill=6, max_skips=2
        )
        self.everyone: list[Sequence] = []
        self.now_s = 0.0

    @rule(
        prompt=st.integers(1, 30),
        answer=st.integers(1, 18),
        tenant=st.sampled_from("ab"),
        priority=st.integers(0, 2),
    )
    def arrive(self, prompt: int, answer: int, tenant: str, priority: int) -> None:
        one = sequence(len(self.everyone), prompt, answer, tenant=tenant, priority=priority, at_s=self.now_s)
        self.scheduler.add(one)
        self.everyone.append(one)

    @rule(prompt=st.integers(1, 30), answer=st.integers(1, 18), n=st.integers(2, 4))
    def arrive_together(self, prompt: int, answer: int, n: int) -> None:
        leader = family(len(self.everyone), prompt, n, answer)
        self.everyone += [leader, *leader.siblings]
        self.scheduler.add(leader)

    @rule(seconds=st.floats(0, 20))
    def step(self, seconds: float) -> None:
        self.now_s += seconds
        scheduler = self.scheduler
        had_work, ran = scheduler.has_work, list(scheduler.running)
        before = {one: one.num_computed for one in ran}
        plan = advance(scheduler, self.now_s)
        assert bool(plan.work) == had_work
        assert plan.prefill_tokens <= scheduler.config.step_tokens
        assert plan.prefill_tokens <= scheduler.config.prefill_tokens or not plan.decoding
        assert not (plan.admitted and plan.preempted)
        if ran:
            best = min(one.priority for one in ran)
            first = min(ran, key=lambda one: scheduler._ageing.rank(one, best, self.now_s))
            assert first not in plan.preempted
            if all(one.tenant == first.tenant for one in ran):
                assert first.status is Status.FINISHED or first.num_computed > before[first]

    @precondition(lambda self: self.everyone)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.everyone))
        was_finished = one.status is Status.FINISHED
        assert self.scheduler.finish(one, self.now_s) is not was_finished

    @invariant()
    def books_hold(self) -> None:
        self.scheduler.check()

    def teardown(self) -> None:
        for _ in range(3000):
            if not self.scheduler.has_work:
                break
            advance(self.scheduler, self.now_s)
        assert not self.scheduler.has_work
        assert all(one.status is Status.FINISHED for one in self.everyone)
        assert self.scheduler.kv.usage().blocks_used == 0


class AnyChunksMachine(SchedulerMachine):
    """The same for a runner that does not mind where a prompt is cut."""

    any_chunks = True


TestSchedulerMachine = SchedulerMachine.TestCase
TestAnyChunksMachine = AnyChunksMachine.TestCase
TestSchedulerMachine.settings = settings(max_examples=15, stateful_step_count=40, deadline=None)
TestAnyChunksMachine.settings = settings(max_examples=15, stateful_step_count=40, deadline=None)
