"""When a child that ended is started again. Pure: time is an argument."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How long to wait before a restart.

    Attributes:
        first_s: the wait after a first failure.
        longest_s: the wait never grows beyond this.
        healthy_s: a child that ran this long starts again from `first_s`.
    """

    first_s: float = 0.1
    longest_s: float = 5.0
    healthy_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Restarts:
    """What is known of one child's past.

    Attributes:
        failures: how often it ended in a row without having been healthy.
        total: how often it ended since the set began.
    """

    policy: RestartPolicy = RestartPolicy()
    failures: int = 0
    total: int = 0

    def after_exit(self, ran_s: float) -> "Restarts":
        """The past once it has ended after this many seconds."""
        failures = 1 if ran_s >= self.policy.healthy_s else self.failures + 1
        return replace(self, failures=failures, total=self.total + 1)

    @property
    def delay_s(self) -> float:
        """How long to wait now: doubled with each failure, bounded."""
        if self.failures == 0:
            return 0.0
        doublings = min(self.failures - 1, 16)
        return min(self.policy.longest_s, self.policy.first_s * 2.0**doublings)
