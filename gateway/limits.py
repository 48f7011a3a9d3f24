"""Enforces tenants' limits: counted in Redis over all workers, in the round trip that the look-up makes anyway.

Where Redis does not answer, each worker holds its own requests to the whole of a limit.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.errors import ApiError, StoreUnavailable
from gateway.redis_link import RedisLink
from policies.limits import DAY_S, MINUTE_S, Limits, Over, Used, judge

LEASE_S = 60
"""How long a request counts as under way without being renewed: its worker may have died."""
_RENEW_S = 20.0
_REPLY_PARTS = 5

COUNT = """
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local minute, day = math.floor(now / 60), math.floor(now / 86400)
local held = redis.call('HMGET', KEYS[1], 'minute', 'count', 'before', 'day', 'tokens')
local then_, count, before = tonumber(held[1]) or -1, tonumber(held[2]) or 0, tonumber(held[3]) or 0
if then_ < minute then
  before = (then_ == minute - 1) and count or 0
  count = 0
end
count = count + 1
redis.call('HSET', KEYS[1], 'minute', math.max(then_, minute), 'count', count, 'before', before)
redis.call('EXPIRE', KEYS[1], 172800)
local tokens, flights = 0, 0
if tonumber(held[4]) == day then tokens = tonumber(held[5]) or 0 end
if ARGV[2] ~= '0' then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  redis.call('ZADD', KEYS[2], now + tonumber(ARGV[2]), ARGV[1])
  redis.call('EXPIRE', KEYS[2], ARGV[2])
  flights = redis.call('ZCARD', KEYS[2])
end
return {count, before, tokens, flights, tostring(now)}
"""
"""KEYS: use, flights. ARGV: request id, lease in seconds or 0. Counts a request and tells what is used."""

UNCOUNT = """
redis.call('ZREM', KEYS[2], ARGV[1])
if tonumber(redis.call('HGET', KEYS[1], 'count') or '0') > 0 then redis.call('HINCRBY', KEYS[1], 'count', -1) end
return 0
"""
"""KEYS: use, flights. ARGV: request id. Takes a refused request back."""

SPEND = """
local day = math.floor(tonumber(redis.call('TIME')[1]) / 86400)
if tonumber(redis.call('HGET', KEYS[1], 'day') or '-1') ~= day then
  redis.call('HSET', KEYS[1], 'day', day, 'tokens', 0)
end
redis.call('EXPIRE', KEYS[1], 172800)
return redis.call('HINCRBY', KEYS[1], 'tokens', ARGV[1])
"""
"""KEYS: use. ARGV: tokens. Adds to what was used today."""

RENEW = """
local now = tonumber(redis.call('TIME')[1])
redis.call('EXPIRE', KEYS[1], ARGV[1])
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[1]), ARGV[i]) end
return 0
"""
"""KEYS: flights. ARGV: lease in seconds, request ids."""

_WHY = {
    "requests": "{bound} requests a minute",
    "tokens": "{bound} tokens a day",
    "concurrent": "{bound} requests at a time",
}


@dataclass(slots=True)
class _Own:
    """What this worker alone has counted of a tenant."""

    minute: int = -1
    count: int = 0
    before: int = 0
    day: int = -1
    tokens: int = 0
    in_flight: int = 0

    def counted(self, now_s: float) -> Used:
        minute, day = int(now_s // MINUTE_S), int(now_s // DAY_S)
        if minute != self.minute:
            self.before = self.count if minute == self.minute + 1 else 0
            self.minute, self.count = minute, 0
        self.count += 1
        self.in_flight += 1
        return Used(now_s, self.count, self.before, self.tokens if day == self.day else 0, self.in_flight)

    def spent(self, now_s: float, tokens: int) -> None:
        day = int(now_s // DAY_S)
        self.tokens = self.tokens + tokens if day == self.day else tokens
        self.day = day


@dataclass(slots=True)
class Asking:
    """A request that is being counted.

    Attributes:
        used: what this worker alone has counted.
        reply: what Redis has, over all workers; None when there is no connection.
    """

    tenant_id: str
    used: Used
    reply: asyncio.Future[Any] | None


class Limiter:
    """Counts the requests of tenants that have limits; of others it knows nothing.

    Args:
        link: to Redis.
        now_s: seconds since the epoch; used where Redis, which has its own clock, does not answer.
    """

    def __init__(self, link: RedisLink, now_s: Callable[[], float]) -> None:
        self._link = link
        self._now_s = now_s
        self._own: dict[str, _Own] = {}
        self._under_way: dict[str, str] = {}

    def ask(self, tenant_id: str, limits: Limits, request_id: str) -> Asking:
        """Counts a request; what is sent to Redis leaves together with what is sent next. To be left once."""
        own = self._own.setdefault(tenant_id, _Own())
        used = own.counted(self._now_s())
        self._under_way[request_id] = tenant_id
        lease_s = 0 if limits.concurrent is None else LEASE_S
        keys = (_use_key(tenant_id), _flights_key(tenant_id))
        return Asking(tenant_id, used, self._post("EVAL", COUNT, 2, *keys, request_id, lease_s))

    async def admit(self, asking: Asking, limits: Limits, request_id: str) -> None:
        """Returns for a request within the limits; another one is as if it had not come.

        Raises:
            ApiError: 429 with Retry-After.
        """
        used = asking.used
        if asking.reply is not None:
            with contextlib.suppress(Exception):  # counted by the link: then this worker's own count must do
                used = _used(await asking.reply) or used
        over = judge(limits, used)
        if over is not None:
            self._take_back(asking.tenant_id, request_id)
            raise _refusal(over)

    def leave(self, request_id: str) -> None:
        """A request has ended; nothing for one that was not counted."""
        tenant_id = self._under_way.pop(request_id, None)
        if tenant_id is not None:
            self._own[tenant_id].in_flight -= 1
            _behind(self._post("ZREM", _flights_key(tenant_id), request_id))

    def spent(self, tenant_id: str, tokens: int) -> None:
        """A model has processed tokens for a tenant; nothing for one without limits."""
        own = self._own.get(tenant_id)
        if own is not None and tokens > 0:
            own.spent(self._now_s(), tokens)
            _behind(self._post("EVAL", SPEND, 1, _use_key(tenant_id), tokens))

    async def renew(self) -> None:
        """Keeps long requests counted as under way, for ever."""
        while True:
            await asyncio.sleep(_RENEW_S)
            self.renew_once()

    def renew_once(self) -> None:
        """Renews what is under way now."""
        by_tenant: dict[str, list[str]] = {}
        for request_id, tenant_id in self._under_way.items():
            by_tenant.setdefault(tenant_id, []).append(request_id)
        for tenant_id, ids in by_tenant.items():
            _behind(self._post("EVAL", RENEW, 1, _flights_key(tenant_id), LEASE_S, *ids))

    def _take_back(self, tenant_id: str, request_id: str) -> None:
        if self._under_way.pop(request_id, None) is None:
            return
        own = self._own[tenant_id]
        own.in_flight -= 1
        own.count = max(0, own.count - 1)
        keys = (_use_key(tenant_id), _flights_key(tenant_id))
        _behind(self._post("EVAL", UNCOUNT, 2, *keys, request_id))

    def _post(self, *command: str | bytes | int) -> asyncio.Future[Any] | None:
        try:
            return self._link.post(*command)
        except StoreUnavailable:
            return None


def _use_key(tenant_id: str) -> str:
    return f"lamina:{{{tenant_id}}}:use"


def _flights_key(tenant_id: str) -> str:
    return f"lamina:{{{tenant_id}}}:under_way"


def _used(reply: Any) -> Used | None:
    if not isinstance(reply, list) or len(reply) != _REPLY_PARTS:
        return None
    count, before, tokens, flights = (int(part) for part in reply[:4])
    return Used(float(reply[4]), count, before, tokens, flights)


def _behind(future: asyncio.Future[Any] | None) -> None:
    """Looks at a future nobody waits for; its fault is counted by the link."""
    if future is not None:
        future.add_done_callback(lambda done: done.cancelled() or done.exception())


def _refusal(over: Over) -> ApiError:
    why = _WHY[over.reason].format(bound=over.bound)
    return ApiError(
        429,
        f"Rate limit reached: {why}. Try again in {over.retry_after_s} s.",
        code="rate_limit_exceeded",
        kind=over.reason,
        headers={"retry-after": str(over.retry_after_s)},
    )
