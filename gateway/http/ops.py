"""Health, readiness and metrics; they need no key and tell nothing of any tenant."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import orjson

from gateway.http.asgi import JSON, Receive, Scope, Send, send_whole
from gateway.telemetry.metrics import CONTENT_TYPE, Metrics

Check = Callable[[], Awaitable[bool]]
Exposition = Callable[[], Awaitable[bytes]]


class Health:
    """200 while the process runs its loop."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers."""
        await send_whole(send, 200, [JSON], b'{"status":"ok"}')


class Readiness:
    """200 when requests can be judged and answered; names the parts that are missing.

    A missing part degrades; a database that does not answer, while Redis is away too, does not let requests in.

    Args:
        checks: one per part.
        one_of: parts of which at least one must be there.
    """

    def __init__(self, checks: Mapping[str, Check], one_of: frozenset[str]) -> None:
        self._checks = checks
        self._one_of = one_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers with each part's state."""
        parts = {name: await check() for name, check in self._checks.items()}
        ready = any(parts[name] for name in self._one_of)
        status = ("ready" if all(parts.values()) else "degraded") if ready else "unready"
        body = {"status": status, "parts": {name: "ok" if up else "down" for name, up in parts.items()}}
        await send_whole(send, 200 if ready else 503, [JSON], orjson.dumps(body))


class MetricsPage:
    """The gateway's metrics over all workers, then those of the embedded services that answer."""

    def __init__(self, metrics: Metrics, services: Sequence[Exposition]) -> None:
        self._metrics = metrics
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers in Prometheus' text format."""
        body = self._metrics.exposition()
        for service in self._services:
            body += await service()
        await send_whole(send, 200, [(b"content-type", CONTENT_TYPE.encode())], body)
