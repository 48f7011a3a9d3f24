"""Priority, raised by waiting, then arrival."""

import pytest

from engine.scheduler.order import Ageing
from engine.scheduler.waiting import WaitingQueue
from tests.engine.scheduler.stepping import sequence

AGEING = Ageing(seconds=10)


@pytest.mark.parametrize(
    ("priority", "waited_s", "best", "level"),
    [
        (0, 0, 0, 0),
        (3, 9.9, 0, 3),
        (3, 10, 0, 2),
        (3, 35, 0, 0),
        (3, 1000, 0, 0),  # no better than the best present
        (3, 1000, 3, 3),  # alone on its level: nothing to gain
        (-2, 1000, -2, -2),
        (0, -5, 0, 0),  # a clock that has not come that far
        (2, 0, 5, 2),  # better than what was thought the best
    ],
)
def test_a_level(priority: int, waited_s: float, best: int, level: int) -> None:
    assert AGEING.level(sequence(0, 1, priority=priority), best, waited_s) == level


def test_rank_is_level_then_arrival() -> None:
    old, new, urgent = sequence(0, 1, priority=1), sequence(1, 1, priority=1), sequence(2, 1)
    assert sorted([new, old, urgent], key=lambda one: AGEING.rank(one, 0, 5)) == [urgent, old, new]
    assert sorted([new, old, urgent], key=lambda one: AGEING.rank(one, 0, 10)) == [old, new, urgent]


def test_the_queue_keeps_tenants_priorities_and_arrival_apart() -> None:
    queue = WaitingQueue()
    everyone = [sequence(i, 1, tenant="ab"[i % 2], priority=i % 3) for i in range(12)]
    for one in (*everyone[6:], *everyone[:6]):
        queue.add(one)
    assert len(queue) == 12
    assert queue.tenants == ["a", "b"]
    assert queue.best_priority() == 0
    assert [one.seq_id for one in queue.first("a", 1)] == [0, 2, 4]
    for one in everyone:
        assert one in queue
        queue.remove(one)
        assert one not in queue
    assert not queue.tenants
    assert queue.best_priority() is None
    with pytest.raises((KeyError, ValueError)):
        queue.remove(everyone[0])
