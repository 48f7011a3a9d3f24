"""How long a refused client should wait: from measured rates, not a guess."""

import pytest

from engine.backlog import Backlog
from engine.pace import Pace

PACE = Pace(prefill_s=0.01, decode_s=0.1)


def test_a_step_that_did_one_thing_tells_what_it_costs() -> None:
    assert Pace().after(100, 0, 0.5) == Pace(prefill_s=0.005)
    assert Pace().after(0, 4, 0.2) == Pace(decode_s=0.05)


def test_of_a_mixed_step_prefill_pays_what_decodes_do_not() -> None:
    assert Pace(decode_s=0.01).after(50, 10, 0.6).prefill_s == pytest.approx(0.01)
    assert Pace(decode_s=9.0).after(50, 10, 0.6).prefill_s == pytest.approx(0.1 * 0.6 / 60)


def test_a_pace_moves_slowly() -> None:
    pace = Pace()
    for seconds in [0.1] * 50 + [10.0]:
        pace = pace.after(0, 1, seconds)
    assert pace.decode_s == pytest.approx(0.1 + 0.1 * 9.9)


def test_the_wait_is_what_is_left_of_prompts_and_answers() -> None:
    backlog = Backlog()
    backlog.opened(0, "a", prompt=300, max_tokens=50)
    backlog.opened(1, "a", prompt=0, max_tokens=50)
    assert backlog.drain_s(PACE) == pytest.approx(3 + 10)
    backlog.advanced(0, 20)
    backlog.advanced(1, 20)
    assert backlog.drain_s(PACE) == pytest.approx(6)
    backlog.closed(0, complete=False)
    assert backlog.drain_s(PACE) == pytest.approx(3)
    backlog.closed(1, complete=False)
    assert (backlog.drain_s(PACE), len(backlog)) == (0, 0)


def test_answers_are_expected_to_be_as_long_as_they_have_been_lately() -> None:
    backlog = Backlog()
    for seq_id in range(100):
        backlog.opened(seq_id, "a", 10, max_tokens=100)
        backlog.advanced(seq_id, 20)
        backlog.closed(seq_id, complete=True)
    backlog.opened(100, "a", 0, max_tokens=1000)
    assert backlog.drain_s(PACE) == pytest.approx(20, rel=0.01)


def test_retry_after_is_whole_seconds_and_bounded() -> None:
    backlog = Backlog()
    assert backlog.retry_after_s(PACE) == 1
    backlog.opened(0, "a", prompt=120, max_tokens=0)
    assert backlog.retry_after_s(PACE) == 2
    backlog.opened(1, "a", prompt=10**6, max_tokens=0)
    assert backlog.retry_after_s(PACE) == 120


def test_tenants_are_counted_apart() -> None:
    backlog = Backlog()
    for seq_id in range(5):
        backlog.opened(seq_id, "ab"[seq_id % 2], 1, 1)
    backlog.closed(0, complete=True)
    backlog.closed(0, complete=True)
    assert (backlog.of("a"), backlog.of("b"), backlog.of("c"), len(backlog)) == (2, 2, 0, 4)
