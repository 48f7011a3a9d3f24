"""The door to Redis: one pipelined connection per worker, with a deadline, a breaker and a background probe."""

from gateway.redis_link.link import RedisLink
from gateway.redis_link.target import RedisTarget

__all__ = ["RedisLink", "RedisTarget"]
