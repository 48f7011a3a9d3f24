"""The restart policy, with time as an argument."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.supervisor.restart import RestartPolicy, Restarts


def _delays(runs_s: list[float]) -> list[float]:
    past, delays = Restarts(), []
    for ran_s in runs_s:
        past = past.after_exit(ran_s)
        delays.append(past.delay_s)
    return delays


def test_the_wait_doubles_up_to_its_bound() -> None:
    assert _delays([0.0] * 8) == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_a_healthy_run_starts_over() -> None:
    assert _delays([0, 0, 0, 10.0, 0]) == [0.1, 0.2, 0.4, 0.1, 0.2]


def test_a_run_just_short_of_healthy_does_not() -> None:
    assert _delays([0, 9.99]) == [0.1, 0.2]


def test_nothing_is_waited_for_before_the_first_start() -> None:
    assert Restarts().delay_s == 0


@given(st.lists(st.floats(0, 100), min_size=1, max_size=200))
def test_the_wait_is_always_within_its_bounds(runs_s: list[float]) -> None:
    policy = RestartPolicy()
    assert all(policy.first_s <= delay <= policy.longest_s for delay in _delays(runs_s))


@given(st.lists(st.floats(0, 100), max_size=50))
def test_every_exit_is_counted(runs_s: list[float]) -> None:
    past = Restarts()
    for ran_s in runs_s:
        past = past.after_exit(ran_s)
    assert past.total == len(runs_s)
