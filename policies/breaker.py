"""A circuit breaker, pure: the caller brings the time and reports what came of each attempt.

closed ──failures in a row──► open ──retry_s──► half-open ──success──► closed
                                ▲                   └──failure──► open again
"""

from typing import Literal

State = Literal["closed", "open", "half_open"]


class Breaker:
    """Says whether to try at all, after failures in a row.

    Half-open, one attempt at a time passes; one that is never reported (cancelled) makes way after `retry_s`.
    Not for use from several threads.

    Args:
        failures: this many in a row open it, at least 1.
        retry_s: how long it stays open before an attempt may pass.

    Attributes:
        state: closed (all pass), open (none pass), half_open (an attempt is out).
        reason: why it opened last; empty when it never did.
    """

    __slots__ = ("_failures", "_retry_at_s", "_retry_s", "_row", "reason", "state")

    def __init__(self, failures: int, retry_s: float) -> None:
        if failures < 1 or retry_s <= 0:
            raise ValueError("a breaker needs at least one failure and a time to wait")
        self._failures = failures
        self._retry_s = retry_s
        self._row = 0
        self._retry_at_s = 0.0
        self.state: State = "closed"
        self.reason = ""

    def allow(self, now_s: float) -> bool:
        """Whether an attempt may be made now; a pass must be followed by `success` or `failure`."""
        if self.state == "closed":
            return True
        if now_s < self._retry_at_s:
            return False
        self.state = "half_open"
        self._retry_at_s = now_s + self._retry_s
        return True

    def success(self) -> None:
        """The attempt went well: all pass again."""
        self.state = "closed"
        self._row = 0

    def failure(self, now_s: float, reason: str = "") -> None:
        """The attempt failed; one that began before it opened changes nothing any more."""
        self._row += 1
        if self.state == "half_open" or (self.state == "closed" and self._row >= self._failures):
            self.state = "open"
            self.reason = reason
            self._retry_at_s = now_s + self._retry_s

    def wait_s(self, now_s: float) -> float:
        """How long until an attempt may pass; 0 when it may now."""
        return 0.0 if self.state == "closed" else max(0.0, self._retry_at_s - now_s)
