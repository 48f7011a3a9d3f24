"""Looks at the parts now and then, so that an idle gateway too notices, and tells, that one is away."""

import asyncio
from collections.abc import Callable, Mapping

import structlog

from gateway.http.ops import Check
from gateway.providers.guarded import GuardedProvider
from gateway.redis_link import RedisLink
from gateway.semantic_link import SemanticLink
from gateway.telemetry.metrics import Metrics
from gateway.tls import tls_advice

_EVERY_S = 2.0
_WITHIN_S = 3.0


def breakers(
    link: RedisLink, semantic: SemanticLink | None, providers: Mapping[str, GuardedProvider]
) -> Mapping[str, Callable[[], bool]]:
    """Whether each part that has a breaker is left alone at the moment."""
    found: dict[str, Callable[[], bool]] = {"redis": lambda: not link.open}
    if semantic is not None:
        found["semantic"] = lambda: not semantic.open
    for name, provider in providers.items():
        found[f"provider:{name}"] = _opened(provider)
    return found


async def watch_for_ever(
    checks: Mapping[str, Check], opened: Mapping[str, Callable[[], bool]], metrics: Metrics
) -> None:
    """Asks every part in turn, and tells what it said and which breakers are open."""
    while True:
        for name, check in checks.items():
            metrics.part(name, up=await _answers(name, check, metrics))
        for name, is_open in opened.items():
            metrics.breaker(name, opened=is_open())
        await asyncio.sleep(_EVERY_S)


def faults_of_redis(metrics: Metrics, log: structlog.typing.FilteringBoundLogger) -> Callable[[str], None]:
    """Counts each fault of the link to Redis, and says once what to do about one of TLS."""
    said: set[str] = set()

    def on_fault(reason: str) -> None:
        metrics.fault("redis", reason)
        advice = tls_advice(reason, "ssl_ca_certs in redis_url")
        if advice and reason not in said:
            said.add(reason)
            log.error("redis_fault", part="redis", reason=reason, error=advice)

    return on_fault


async def _answers(name: str, check: Check, metrics: Metrics) -> bool:
    try:
        async with asyncio.timeout(_WITHIN_S):
            return await check()
    except TimeoutError:
        return False
    except Exception as error:  # noqa: BLE001  (recorded; without the watch no part would be looked at again)
        metrics.fault("watch", f"{name}_{type(error).__name__}")
        return False


def _opened(provider: GuardedProvider) -> Callable[[], bool]:
    return lambda: provider.state == "open"
