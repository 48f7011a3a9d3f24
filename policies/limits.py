"""What a tenant may use, and whether a request is still within it."""

import math

import msgspec

MINUTE_S = 60
DAY_S = 86_400
MOST = 10**12
_RETRY_FLIGHT_S = 1


class Limits(msgspec.Struct, frozen=True):
    """What a tenant may use; None sets no bound.

    Attributes:
        requests_per_minute: chat requests, answered from the cache or not, in any 60 seconds: those of the minute
            before count by the share of it that the 60 seconds still reach into.
        tokens_per_day: tokens that models process for it, prompt and answer, in a day of UTC; the request that
            passes the bound is still answered. Cached answers are free.
        concurrent: requests under way at a time.
    """

    requests_per_minute: int | None = None
    tokens_per_day: int | None = None
    concurrent: int | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            bound = getattr(self, name)
            if bound is not None and not (type(bound) is int and 0 <= bound <= MOST):
                raise ValueError(f"{name} is a number from 0 to {MOST}, or nothing")

    def as_json(self) -> dict[str, int | None]:
        """For records and answers."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


NO_LIMITS = Limits()


class Used(msgspec.Struct, frozen=True):
    """What a tenant has used, the request in question included.

    Attributes:
        now_s: seconds since the epoch, by the clock that counted.
        this_minute, last_minute: requests in this minute of that clock and in the one before.
        tokens: of this day.
        in_flight: requests under way.
    """

    now_s: float
    this_minute: int
    last_minute: int
    tokens: int
    in_flight: int


class Over(msgspec.Struct, frozen=True):
    """The request is beyond a limit.

    Attributes:
        reason: `requests`, `tokens` or `concurrent`.
        bound: what is allowed.
        retry_after_s: when asking again may help; at least 1.
    """

    reason: str
    bound: int
    retry_after_s: int


def judge(limits: Limits, used: Used) -> Over | None:
    """None for a request within its tenant's limits; else the limit that it has to wait for longest."""
    found: list[Over] = []
    if limits.concurrent is not None and used.in_flight > limits.concurrent:
        found.append(Over("concurrent", limits.concurrent, _RETRY_FLIGHT_S))
    bound = limits.requests_per_minute
    if bound is not None:
        reach = 1 - (used.now_s % MINUTE_S) / MINUTE_S
        if used.this_minute + used.last_minute * reach > bound:
            found.append(Over("requests", bound, _until_free(bound, used)))
    if limits.tokens_per_day is not None and used.tokens >= limits.tokens_per_day:
        found.append(Over("tokens", limits.tokens_per_day, max(1, math.ceil(DAY_S - used.now_s % DAY_S))))
    return max(found, key=lambda over: over.retry_after_s, default=None)


def _until_free(bound: int, used: Used) -> int:
    """Whole seconds until one more request would be within the bound, should no other come meanwhile."""
    into = used.now_s % MINUTE_S
    if used.this_minute <= bound and used.last_minute > 0:
        reach = (bound - used.this_minute) / used.last_minute
        return max(1, math.ceil(MINUTE_S * (1 - reach) - into))
    earlier = used.this_minute - 1
    reach = max(0.0, (bound - 1) / earlier) if earlier > 0 else 0.0
    return max(1, math.ceil(MINUTE_S - into + MINUTE_S * (1 - min(1.0, reach))))
