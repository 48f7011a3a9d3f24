"""Builds coalescing: inside this worker, or with all workers on one Redis."""

import secrets
from collections.abc import Callable

from gateway.coalescing import Coalescer, Everywhere, OneWorker
from gateway.coalescing.everywhere import Parts
from gateway.coalescing.leases import TOKEN_CHARS, Leases
from gateway.coalescing.post import Post
from gateway.forward import Forwarder
from gateway.home import Home
from gateway.layers.entry import Sealer
from gateway.redis_link import Inbox, RedisLink, RedisTarget
from gateway.settings import Settings
from gateway.telemetry.metrics import Metrics
from policies.leases import Terms

_PREFIX = "lamina:inbox:"


def open_coalescing(  # noqa: PLR0917  (what a part of the gateway is built from)
    settings: Settings,
    link: RedisLink,
    forwarder: Forwarder,
    seals: tuple[Sealer, bytes, str],
    metrics: Metrics,
    now_s: Callable[[], float],
) -> Coalescer:
    """Coalescing as the settings want it; listens to other workers from now on, when there may be any.

    Args:
        settings: all of them.
        link: to Redis.
        forwarder: makes calls.
        seals: sealer, master secret, and version of the guards.
        metrics: counts.
        now_s: seconds since the epoch.
    """
    cache = settings.cache
    if cache.coalescing != "everywhere" or _is_alone(settings):
        return OneWorker(forwarder)
    url = settings.redis_url
    target = RedisTarget.parse("" if url is None else url.get_secret_value())
    terms = Terms(cache.coalescing_lease_ms / 1000)
    name = secrets.token_hex(TOKEN_CHARS // 2)

    def fault(reason: str) -> None:
        metrics.fault("coalescing", reason)

    leases = Leases(link, _PREFIX, name, terms, cache.coalescing_deadline_ms / 1000)
    post = Post(leases, terms.lease_s, fault)
    redis = settings.redis
    waits = (redis.deadline_ms / 1000, redis.breaker_retry_ms / 1000)
    post.open(Inbox(target, leases.channel(name), *waits, post.take, fault))
    parts = Parts(forwarder, leases, metrics, *seals, terms, cache.coalescing_bytes, now_s)
    return Everywhere(parts, post)


def _is_alone(settings: Settings) -> bool:
    """Whether this is the only worker that uses the set's own Redis."""
    url = "" if settings.redis_url is None else settings.redis_url.get_secret_value()
    return settings.workers == 1 and RedisTarget.parse(url).path == str(Home(settings.home).redis_socket)
