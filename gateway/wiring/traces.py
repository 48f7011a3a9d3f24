"""Puts tracing around what is built, where it is on; where it is off, everything stays as it is."""

import importlib
import os
from collections.abc import Mapping
from typing import Protocol

from gateway.http.asgi import Endpoint
from gateway.http.traced import TracedEndpoint
from gateway.providers.contract import Provider
from gateway.providers.traced import TracedProvider
from gateway.settings import TraceSettings
from gateway.telemetry.logs import LinesOfATurn, RequestLog
from gateway.telemetry.metrics import Later, Metrics
from gateway.telemetry.traces import Span, Traces
from gateway.telemetry.traces_told import TracedLog, TracedMetrics


class Export(Protocol):
    """Where spans go; see gateway.telemetry.traces_export."""

    def put(self, span: Span) -> None:
        """Queues a span."""
        ...

    async def close(self) -> None:
        """Sends what waits, within bounds."""
        ...


class Tracing:
    """Nothing is traced: what is asked for is the plain thing."""

    def metrics(self, later: Later) -> Metrics:
        """The worker's metrics."""
        return Metrics(later)

    def request_log(self, level: str, out: LinesOfATurn) -> RequestLog:
        """The worker's log of requests."""
        return RequestLog(level, os.getpid(), out)

    def providers(self, providers: Mapping[str, Provider]) -> Mapping[str, Provider]:
        """The providers as the walk asks them."""
        return providers

    def endpoint(self, _route: str, endpoint: Endpoint) -> Endpoint:
        """A route of the model surfaces."""
        return endpoint

    async def close(self) -> None:
        """Sends what waits."""


class LiveTracing(Tracing):
    """Everything is traced, and sent to the collector of these settings."""

    def __init__(self, settings: TraceSettings) -> None:
        self._settings = settings
        self._traces = Traces(settings.share)
        self._export: Export | None = None

    def metrics(self, later: Later) -> Metrics:
        """Metrics that draw spans too; made once, since they count what is sent."""
        metrics = TracedMetrics(self._traces, later)
        kind = importlib.import_module("gateway.telemetry.traces_export").SpanExport
        export: Export = kind(self._settings, os.getpid(), metrics.spans)
        self._traces.send_to(export.put)
        self._export = export
        return metrics

    def request_log(self, level: str, out: LinesOfATurn) -> RequestLog:
        """A log that ends traces."""
        return TracedLog(self._traces, level, os.getpid(), out)

    def providers(self, providers: Mapping[str, Provider]) -> Mapping[str, Provider]:
        """The providers, each call with a span."""
        return {name: TracedProvider(name, one, self._traces) for name, one in providers.items()}

    def endpoint(self, route: str, endpoint: Endpoint) -> Endpoint:
        """A route whose requests begin traces."""
        return TracedEndpoint(endpoint, route, self._traces)

    async def close(self) -> None:
        """Sends what waits, for a second at most."""
        if self._export is not None:
            await self._export.close()


def open_tracing(settings: TraceSettings) -> Tracing:
    """Tracing as the settings want it."""
    return Tracing() if settings.endpoint is None else LiveTracing(settings)
