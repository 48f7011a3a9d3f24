"""The door to Redis: one pipelined connection per worker, with a deadline, a breaker and a probe; and an inbox."""

from gateway.redis_link.inbox import Inbox
from gateway.redis_link.link import RedisLink
from gateway.redis_link.target import RedisTarget

__all__ = ["Inbox", "RedisLink", "RedisTarget"]
