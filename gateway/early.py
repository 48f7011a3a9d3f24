"""Which hot entries this worker refreshes before their end."""

import random

from gateway.layers.opened import Opened
from policies.freshness import HITS_WANTED, MOST_EARLY, early, near_end

_MAX_ENTRIES = 4096


class EarlyRefreshes:
    """Counts hits of entries near their end, and draws for each whether it refreshes.

    Args:
        beta: see StaleRules; 0 never refreshes.
        draw: gives numbers from [0, 1).
    """

    def __init__(self, beta: float, draw: random.Random | None = None) -> None:
        self._beta = beta
        self._draw = draw or random.Random()  # noqa: S311  (a draw, no secret)
        self._near: dict[bytes, list[float]] = {}

    def wanted(self, opened: Opened, ttl_s: float) -> bool:
        """Whether the hit that has just been served refreshes its entry; to be asked once per hit."""
        entry = opened.entry
        if not near_end(ttl_s, entry.took_s, self._beta):
            return False
        known = self._near.get(entry.key)
        if known is None or known[0] != entry.created_s:
            if len(self._near) >= _MAX_ENTRIES:
                self._near.clear()
            known = self._near[entry.key] = [entry.created_s, 0, 0]
        known[1] += 1
        _, hits, refreshes = known
        drawn = early(ttl_s, entry.took_s, self._beta, 1.0 - self._draw.random())
        if hits < HITS_WANTED or refreshes >= MOST_EARLY or not drawn:
            return False
        known[2] += 1
        return True
