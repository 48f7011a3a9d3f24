import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from policies.breaker import Breaker


def test_failures_in_a_row_open_it_and_a_success_between_does_not() -> None:
    breaker = Breaker(3, 1.0)
    breaker.failure(0.0, "timeout")
    breaker.failure(0.0, "timeout")
    breaker.success()
    breaker.failure(0.0, "timeout")
    breaker.failure(0.0, "timeout")
    assert breaker.allow(0.0)
    breaker.failure(0.0, "connect")
    assert (breaker.state, breaker.reason) == ("open", "connect")
    assert not breaker.allow(0.9)
    assert breaker.wait_s(0.75) == 0.25


def test_one_probe_passes_and_decides() -> None:
    breaker = Breaker(1, 1.0)
    breaker.failure(0.0)
    assert breaker.allow(1.0)
    assert not breaker.allow(1.0)
    breaker.failure(1.5)
    assert not breaker.allow(2.4)
    assert breaker.allow(2.5)
    breaker.success()
    assert breaker.state == "closed"
    assert breaker.allow(2.5)
    assert breaker.allow(2.5)


def test_a_probe_that_is_never_reported_makes_way() -> None:
    breaker = Breaker(1, 1.0)
    breaker.failure(0.0)
    assert breaker.allow(1.0)
    assert not breaker.allow(1.9)
    assert breaker.allow(2.0)


def test_late_failures_do_not_keep_it_open() -> None:
    breaker = Breaker(1, 1.0)
    breaker.failure(0.0)
    breaker.failure(0.9)
    assert breaker.allow(1.0)


@pytest.mark.parametrize(("failures", "retry_s"), [(0, 1.0), (1, 0.0)])
def test_settings_that_make_no_breaker(failures: int, retry_s: float) -> None:
    with pytest.raises(ValueError):
        Breaker(failures, retry_s)


class BreakerMachine(RuleBasedStateMachine):
    """Any order of attempts, outcomes, losses and time."""

    limit, retry_s = 3, 2.0

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker(self.limit, self.retry_s)
        self.now_s = 0.0
        self.out = 0
        self.row = 0
        self.passed_at_s = -1e9

    @rule(step_s=st.sampled_from([0.0, 0.5, 1.0, 2.0]))
    def wait(self, step_s: float) -> None:
        self.now_s += step_s

    @rule()
    def attempt(self) -> None:
        before = self.breaker.state
        waited = self.breaker.wait_s(self.now_s)
        allowed = self.breaker.allow(self.now_s)
        assert allowed == (waited == 0)
        if before == "closed":
            assert allowed
        elif allowed:
            assert self.now_s - self.passed_at_s >= self.retry_s
            self.passed_at_s = self.now_s
            assert self.breaker.state == "half_open"
        self.out += allowed

    @precondition(lambda self: self.out)
    @rule()
    def succeed(self) -> None:
        self.out -= 1
        self.row = 0
        self.breaker.success()
        assert self.breaker.state == "closed"

    @precondition(lambda self: self.out)
    @rule()
    def fail(self) -> None:
        before = self.breaker.state
        self.out -= 1
        self.row += 1
        self.breaker.failure(self.now_s, "x")
        if before == "half_open" or self.row >= self.limit:
            assert self.breaker.state == "open"
        if before != "open" and self.breaker.state == "open":
            assert not self.breaker.allow(self.now_s)
            self.passed_at_s = self.now_s

    @precondition(lambda self: self.out)
    @rule()
    def lose(self) -> None:
        self.out -= 1

    @invariant()
    def it_never_shuts_for_good(self) -> None:
        assert 0 <= self.breaker.wait_s(self.now_s) <= self.retry_s

    @invariant()
    def closed_means_fewer_failures_in_a_row_than_the_limit(self) -> None:
        assert self.breaker.state != "closed" or self.row < self.limit


TestBreaker = BreakerMachine.TestCase
