"""Which cached block to give up first: the policies, by name.

A new policy is a class that keeps `contract.RetentionPolicy` and a line here; the contract tests in
`tests/engine/kv/test_retention.py` run over the table.
"""

from engine.kv.retention.contract import NO_TRACE, RetentionPolicy, Session, Trace
from engine.kv.retention.hit_density import HitDensity
from engine.kv.retention.lru import LeastRecentlyUsed

RETENTION: dict[str, type[RetentionPolicy]] = {
    "lru": LeastRecentlyUsed,
    "hit-density": HitDensity,
}

__all__ = ["NO_TRACE", "RETENTION", "RetentionPolicy", "Session", "Trace"]
