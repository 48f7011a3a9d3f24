"""n answers to one prompt: computed once, shared, and right whoever leaves when."""

import pytest

from engine.sequence import Sequence, Status
from tests.engine.scheduler.stepping import advance, drain, family, make, sequence, spans


def everyone(leader: Sequence) -> list[Sequence]:
    return [leader, *leader.siblings]


def test_a_prompt_is_computed_once_for_all_its_answers() -> None:
    scheduler = make(kv_tokens=256)
    leader = family(0, prompt=10, n=3)
    answers = everyone(leader)
    scheduler.add(leader)
    assert scheduler.num_waiting == 3
    assert spans(advance(scheduler)) == [(0, 0, 10)]
    assert [len(one.output_ids) for one in answers] == [1, 1, 1]
    assert scheduler.kv.usage().blocks_used == 3
    assert spans(advance(scheduler)) == [(0, 10, 1), (1, 10, 1), (2, 10, 1)]
    # Two full blocks are shared; each answer has an open one of its own, of which the last keeps the first.
    assert scheduler.kv.usage().blocks_used == 5
    drain(scheduler)
    assert [len(one.output_ids) for one in answers] == [8, 8, 8]


def test_answers_without_a_place_queue_and_run_later() -> None:
    scheduler = make(kv_tokens=256, max_running=2)
    leader = family(0, prompt=10, n=4)
    answers = everyone(leader)
    scheduler.add(leader)
    advance(scheduler)
    assert [one.status for one in answers] == [Status.RUNNING] * 2 + [Status.WAITING] * 2
    drain(scheduler)
    assert [len(one.output_ids) for one in answers] == [8] * 4


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("leaving", [0, 1, 2])
def test_anyone_may_leave_at_any_time(steps: int, leaving: int) -> None:
    """Waiting, in the middle of the prompt, and after the fork."""
    scheduler = make(kv_tokens=256)
    leader = family(0, prompt=40, n=3)
    answers = everyone(leader)
    scheduler.add(leader)
    for _ in range(steps):
        advance(scheduler)
    assert scheduler.finish(answers[leaving], 0.0)
    scheduler.check()
    drain(scheduler)
    assert [len(one.output_ids) for one in answers if one is not answers[leaving]] == [8, 8]


def test_an_heir_goes_on_where_its_leader_stopped() -> None:
    scheduler = make(kv_tokens=256)
    leader = family(0, prompt=40, n=3)
    heir, last = leader.siblings
    scheduler.add(leader)
    advance(scheduler)
    scheduler.finish(leader, 0.0)
    assert (heir.status, heir.num_computed, heir.siblings) == (Status.RUNNING, 16, [last])
    assert spans(advance(scheduler)) == [(1, 16, 16)]
    scheduler.finish(last, 0.0)
    drain(scheduler)
    assert len(heir.output_ids) == 8


def test_a_leader_may_be_preempted_before_and_answers_after_the_fork() -> None:
    scheduler = make(kv_tokens=48)
    first, leader = sequence(0, prompt=8, answer=36), family(1, prompt=20, n=3, answer=10)
    answers = everyone(leader)
    scheduler.add(first)
    scheduler.add(leader)
    drain(scheduler)
    assert [len(one.output_ids) for one in answers] == [10] * 3
    assert sum(one.num_preemptions for one in answers) > 0
