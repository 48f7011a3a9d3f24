"""The queue before the running set: by tenant, within a tenant by level, within a level by arrival."""

from bisect import insort
from collections.abc import Iterator

from engine.sequence import Sequence


class WaitingQueue:
    """Sequences that want to run. Those a request's first answer takes along are not here but with it."""

    def __init__(self) -> None:
        self._by_tenant: dict[str, dict[int, list[Sequence]]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Sequence]:
        for levels in self._by_tenant.values():
            for queue in levels.values():
                yield from queue

    def __contains__(self, sequence: Sequence) -> bool:
        return sequence in self._by_tenant.get(sequence.tenant, {}).get(sequence.priority, ())

    @property
    def tenants(self) -> list[str]:
        """Tenants that have something waiting."""
        return list(self._by_tenant)

    def add(self, sequence: Sequence) -> None:
        """Put a sequence where its arrival belongs: at the end when new, before younger ones when preempted."""
        queue = self._by_tenant.setdefault(sequence.tenant, {}).setdefault(sequence.priority, [])
        insort(queue, sequence, key=_arrival)
        self._size += 1

    def remove(self, sequence: Sequence) -> None:
        """Take a sequence out.

        Raises:
            ValueError: it is not here.
        """
        levels = self._by_tenant[sequence.tenant]
        queue = levels[sequence.priority]
        queue.remove(sequence)
        self._size -= 1
        if not queue:
            del levels[sequence.priority]
            if not levels:
                del self._by_tenant[sequence.tenant]

    def best_priority(self) -> int | None:
        """The lowest number that waits; None when nothing does."""
        return min((level for levels in self._by_tenant.values() for level in levels), default=None)

    def first(self, tenant: str, count: int) -> list[Sequence]:
        """A tenant's oldest sequences, at most `count` of each priority."""
        return [one for queue in self._by_tenant.get(tenant, {}).values() for one in queue[:count]]


def _arrival(sequence: Sequence) -> int:
    return sequence.seq_id
