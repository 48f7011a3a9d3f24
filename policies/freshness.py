"""Life past its end and before it: stale answers that an operator allows, and refreshes ahead of the crowd. Pure.

Sources: RFC 5861 for stale answers; Vattani, Chierichetti, Lowenstein, "Optimal Probabilistic Cache Stampede
Prevention" (VLDB 2015) for early refreshes: each request of a hot entry draws, and the draw that wins refreshes it
while the others are still served.
"""

import math

import msgspec

from policies.decide import Hit, Life, Miss, Stale

HITS_WANTED = 2
"""An entry is refreshed early only once it was hit so often close to its end: what nobody asks costs nothing."""

MOST_EARLY = 2
"""A worker refreshes an entry early at most so often."""

_LONGEST_DRAW = 21.0
"""No draw from (0, 1] that a computer makes is below e to the minus this often enough to matter."""

_EXCUSED = frozenset({"expired", "soft_purged"})
_TOO_MANY, _SERVER_ERROR = 429, 500


class StaleRules(msgspec.Struct, frozen=True):
    """What the operator allows past an entry's life, in seconds.

    Attributes:
        revalidate_s: served while one refresh flies behind.
        error_s: served when the model fails before its first byte.
        beta: how eagerly hot entries are refreshed early; 1 is the paper's optimum, 0 never.
    """

    revalidate_s: float = 0.0
    error_s: float = 0.0
    beta: float = 1.0


def revalidating(decision: Hit | Stale | Miss, life: Life, rules: StaleRules, now_s: float) -> Hit | Stale | Miss:
    """The decision, or a stale answer where a miss is only a matter of time and a refresh may fly behind."""
    if not isinstance(decision, Miss) or decision.reason not in _EXCUSED:
        return decision
    return _stale(life, rules.revalidate_s, now_s, "revalidating") or decision


def excused(reason: str, life: Life, rules: StaleRules, now_s: float) -> Stale | None:
    """What may be served should the model fail, where an entry missed for this reason; None when nothing may."""
    return _stale(life, rules.error_s, now_s, "if_error") if reason in _EXCUSED else None


def _stale(life: Life, allowed_s: float, now_s: float, reason: str) -> Stale | None:
    age_s = max(0.0, now_s - life.created_s)
    ttl_s = life.ttl_s - age_s
    if allowed_s <= 0 or max(0.0, -ttl_s) > allowed_s:
        return None
    return Stale(age_s, min(ttl_s, 0.0), reason)


def failed_upstream(reason: str, status: int) -> bool:
    """Whether a model's failure is one that a stale answer may stand in for: not the request's own fault."""
    return reason != "status" or status == _TOO_MANY or status >= _SERVER_ERROR


def near_end(ttl_s: float, took_s: float, beta: float) -> bool:
    """Whether an early refresh is conceivable at all; costs two multiplications, as every hit asks."""
    return ttl_s < took_s * beta * _LONGEST_DRAW


def early(ttl_s: float, took_s: float, beta: float, u: float) -> bool:
    """Whether this request refreshes an entry that is still fresh.

    Args:
        ttl_s: life that is left.
        took_s: how long the model took to make the entry.
        beta: see StaleRules.
        u: drawn from (0, 1].
    """
    return took_s * beta * -math.log(u) >= ttl_s
