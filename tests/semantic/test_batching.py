"""One thread for many callers: what waits is computed together, and each call fails only by what it brought."""

import threading
import time
from collections.abc import Sequence

import pytest

from semantic.batching import Batcher
from semantic.errors import BusyError


class Doubler:
    """Doubles numbers, slowly, and fails on 13; holds what it was given."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, items: Sequence[int]) -> list[int]:
        """Doubles."""
        self.gate.wait(10)
        self.batches.append(list(items))
        if 13 in items:
            raise ValueError("thirteen")
        return [2 * item for item in items]


def _call(
    batcher: Batcher[int, int], items: list[int], found: list[object], urgent: bool = True
) -> threading.Thread:
    def call() -> None:
        try:
            found.append(batcher(items, urgent=urgent))
        except (ValueError, BusyError) as error:
            found.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    return thread


def _busy(batcher: Batcher[int, int], doubler: Doubler) -> threading.Thread:
    """Makes the thread wait inside a batch."""
    doubler.gate.clear()
    thread = _call(batcher, [0], [])
    time.sleep(0.05)
    return thread


def test_results_come_in_order_and_nothing_is_nothing() -> None:
    batcher = Batcher(Doubler(), "test")
    assert batcher([3, 1, 2]) == [6, 2, 4]
    assert batcher([]) == []
    batcher.close()


def test_who_asks_while_a_batch_is_computed_shares_the_next() -> None:
    doubler = Doubler()
    batcher = Batcher(doubler, "test", most_together=8)
    threads, found = [_busy(batcher, doubler)], list[object]()
    threads += [_call(batcher, [number], found) for number in range(1, 11)]
    time.sleep(0.05)
    doubler.gate.set()
    for thread in threads:
        thread.join()
    assert [len(batch) for batch in doubler.batches] == [1, 8, 2]
    assert sorted(found, key=str) == sorted([[2 * number] for number in range(1, 11)], key=str)
    batcher.close()


def test_a_call_that_fails_costs_no_other() -> None:
    doubler = Doubler()
    batcher = Batcher(doubler, "test")
    threads, good, bad = [_busy(batcher, doubler)], list[object](), list[object]()
    threads += [_call(batcher, [5, 6], good), _call(batcher, [7, 13], bad), _call(batcher, [8], good)]
    time.sleep(0.05)
    doubler.gate.set()
    for thread in threads:
        thread.join()
    assert sorted(good, key=str) == [[10, 12], [16]]
    assert [str(error) for error in bad] == ["thirteen"]
    batcher.close()


def test_what_can_wait_waits_for_what_cannot_and_goes_in_small_batches() -> None:
    doubler = Doubler()
    batcher = Batcher(doubler, "test", most_behind=2)
    threads = [_busy(batcher, doubler), _call(batcher, [1, 2, 3], [], urgent=False)]
    time.sleep(0.05)
    threads.append(_call(batcher, [9], []))
    time.sleep(0.05)
    doubler.gate.set()
    for thread in threads:
        thread.join()
    assert doubler.batches == [[0], [9], [1, 2], [3]]
    batcher.close()


def test_a_full_queue_a_late_answer_and_a_closed_one_are_refused() -> None:
    doubler = Doubler()
    batcher = Batcher(doubler, "test", most_waiting=4)
    waiting = _busy(batcher, doubler)
    with pytest.raises(BusyError, match="too much"):
        batcher([1, 2, 3, 4, 5])
    with pytest.raises(BusyError, match="in time"):
        batcher([1], timeout_s=0.05)
    found: list[object] = []
    late = _call(batcher, [2], found)
    time.sleep(0.05)
    closing = threading.Thread(target=batcher.close)
    closing.start()
    time.sleep(0.05)
    doubler.gate.set()
    for thread in (waiting, late, closing):
        thread.join()
    assert isinstance(found[0], BusyError)
    with pytest.raises(BusyError):
        batcher([1])
    batcher.close()
