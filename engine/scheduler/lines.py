"""Who wants prompt tokens in this step, by tenant."""

from collections import deque
from collections.abc import Iterable

from engine.scheduler.fair_share import FairShare
from engine.scheduler.order import Ageing
from engine.scheduler.waiting import WaitingQueue
from engine.sequence import Sequence, Status


class Lines:
    """One line of sequences per tenant, best rank first; made for one step."""

    def __init__(self, ageing: Ageing, best: int, now_s: float) -> None:
        self._ageing = ageing
        self._best = best
        self._now_s = now_s
        self._lines: dict[str, deque[tuple[int, Sequence]]] = {}

    def __bool__(self) -> bool:
        return bool(self._lines)

    def fill(self, running: Iterable[Sequence], waiting: WaitingQueue, count: int) -> None:
        """Line up prompts that are partly computed and, of each tenant and priority, `count` that wait."""
        found: dict[str, list[Sequence]] = {}
        for sequence in running:
            found.setdefault(sequence.tenant, []).append(sequence)
        for tenant in waiting.tenants if count > 0 else ():
            found.setdefault(tenant, []).extend(waiting.first(tenant, count))
        for tenant, sequences in found.items():
            ranked = sorted((self._ageing.rank(one, self._best, self._now_s), one) for one in sequences)
            self._lines[tenant] = deque((level, one) for (level, _), one in ranked)

    def next(self, shares: FairShare) -> Sequence:
        """Take out the sequence whose turn it is: of the best level, of the tenant whose turn it is.

        Side effects: may give out quanta.
        """
        best = min(line[0][0] for line in self._lines.values())
        tenant = shares.turn([name for name, line in self._lines.items() if line[0][0] == best])
        line = self._lines[tenant]
        _, sequence = line.popleft()
        if not line:
            del self._lines[tenant]
        return sequence

    def running_only(self) -> None:
        """Take out everybody who waits."""
        kept = {
            tenant: deque(place for place in line if place[1].status is Status.RUNNING)
            for tenant, line in self._lines.items()
        }
        self._lines = {tenant: line for tenant, line in kept.items() if line}

    def again(self, sequence: Sequence) -> None:
        """Put a sequence that wants more behind the others of its tenant."""
        level = self._ageing.level(sequence, self._best, self._now_s)
        self._lines.setdefault(sequence.tenant, deque()).append((level, sequence))
