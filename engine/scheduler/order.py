"""Who goes before whom: priority, raised by waiting, then arrival."""

from dataclasses import dataclass

from engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Ageing:
    """A sequence gains one priority for each `seconds` since it arrived.

    It gains none past the best priority that anybody present has: ageing lifts a sequence over its betters'
    shoulders, and never lets the old backlog of one tenant pass another tenant's new request of equal priority.
    """

    seconds: float

    def level(self, sequence: Sequence, best: int, now_s: float) -> int:
        """The priority a sequence has by now; lower runs sooner.

        Args:
            sequence: whose.
            best: the lowest priority number present.
            now_s: monotonic clock.
        """
        gained = int((now_s - sequence.arrival_s) / self.seconds)
        return max(min(best, sequence.priority), sequence.priority - max(0, gained))

    def rank(self, sequence: Sequence, best: int, now_s: float) -> tuple[int, int]:
        """Sort key: level, then arrival. The least rank runs first; the greatest is preempted first."""
        return self.level(sequence, best, now_s), sequence.seq_id
