"""What was cached once: a bounded memory of digests, to explain a miss and to recognise what comes back."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

from engine.kv.retention.contract import Trace

GhostCause = Literal["evicted", "expired"]


@dataclass(frozen=True, slots=True)
class Ghost:
    """A block that is cached no more.

    Attributes:
        cause: why.
        uses: how often it had been found.
        trace: what the retention policy knew of it.
    """

    cause: GhostCause
    uses: int
    trace: Trace


class Ghosts:
    """Remembers the last `capacity` digests that were given up; O(1)."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._ghosts: OrderedDict[bytes, Ghost] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ghosts)

    def remember(self, digest: bytes, ghost: Ghost) -> None:
        """Note what was given up, forgetting the oldest beyond the capacity."""
        self._ghosts[digest] = ghost
        self._ghosts.move_to_end(digest)
        if len(self._ghosts) > self.capacity:
            self._ghosts.popitem(last=False)

    def get(self, digest: bytes) -> Ghost | None:
        """Return what is remembered."""
        return self._ghosts.get(digest)

    def take(self, digest: bytes) -> Ghost | None:
        """Return what is remembered and forget it: the block is cached again."""
        return self._ghosts.pop(digest, None)


class SaltSightings:
    """Which tenant last sent a first block, for the operator's "salt" miss; bounded, never used for a hit."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._salts: OrderedDict[bytes, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._salts)

    def note(self, unsalted: bytes, salt: str) -> str | None:
        """Note a first block's digest without salt; return the salt that it was noted with before."""
        before = self._salts.pop(unsalted, None)
        self._salts[unsalted] = salt
        if len(self._salts) > self.capacity:
            self._salts.popitem(last=False)
        return before

    def forget(self, salt: str) -> None:
        """Remove every sighting of a tenant."""
        for unsalted in [key for key, seen in self._salts.items() if seen == salt]:
            del self._salts[unsalted]
