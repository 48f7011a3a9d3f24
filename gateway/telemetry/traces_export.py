"""Sends spans to a collector over OTLP/HTTP; the only door of OpenTelemetry, loaded only when traces are on.

A collector that is down or slow costs no request: spans wait in a bounded queue, are encoded and sent by a thread,
and are dropped and counted when the queue is full or a batch fails.
"""

import asyncio
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from gateway.settings import TraceSettings
from gateway.telemetry.traces import Span

_EVERY_S = 1.0
_TOGETHER = 128
"""Spans in a batch: encoding more at once would hold the interpreter for longer than a hit takes."""
_CLOSING_S = 1.0
_KINDS = {"server": SpanKind.SERVER, "client": SpanKind.CLIENT, "internal": SpanKind.INTERNAL}
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class SpanExport:
    """The queue and the thread of one worker; belongs to the running loop.

    Args:
        settings: with an endpoint.
        worker: the process id, told as the service's instance.
        told: called on the loop with `sent`, `failed` or `dropped` and a count.
    """

    def __init__(self, settings: TraceSettings, worker: int, told: Callable[[str, int], None]) -> None:
        self._told = told
        self._most_waiting = settings.max_waiting
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Span] = deque()
        self._sending = 0
        self._timer: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self._batches: queue.SimpleQueue[list[Span] | None] = queue.SimpleQueue()
        encode = _Encoder(settings.service_name, worker)
        self._exporter = OTLPSpanExporter(
            settings.endpoint,
            headers=dict(settings.headers),
            timeout=settings.timeout_s,
            compression=Compression.Gzip,
        )
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # what fails is counted, not told each time
        self._thread = threading.Thread(target=self._work, args=(encode,), name="spans", daemon=True)
        self._thread.start()

    def put(self, span: Span) -> None:
        """Queues a span that has ended; returns at once, whatever the collector does."""
        if self._closed or len(self._waiting) + self._sending >= self._most_waiting:
            self._told("dropped", 1)
            return
        self._waiting.append(span)
        self._idle.clear()
        if self._timer is None and not self._sending:
            self._timer = self._loop.call_later(_EVERY_S, self._hand_over)

    async def close(self) -> None:
        """Sends what waits, for a second at most; what is late is dropped."""
        if self._timer is not None:
            self._timer.cancel()
        self._hand_over()
        try:
            async with asyncio.timeout(_CLOSING_S):
                await self._idle.wait()
        except TimeoutError:
            self._told("dropped", len(self._waiting) + self._sending)
        self._closed = True
        self._batches.put(None)

    def _hand_over(self) -> None:
        self._timer = None
        if self._sending:
            return
        batch = [self._waiting.popleft() for _ in range(min(_TOGETHER, len(self._waiting)))]
        if batch:
            self._sending = len(batch)
            self._batches.put(batch)
        else:
            self._idle.set()

    def _done(self, result: str) -> None:
        if self._closed:
            return
        self._told(result, self._sending)
        self._sending = 0
        self._hand_over()

    def _work(self, encode: "_Encoder") -> None:
        """The thread: one batch after the other, until it is told to end."""
        while (batch := self._batches.get()) is not None:
            try:
                sent = self._exporter.export(encode(batch)) is SpanExportResult.SUCCESS
            except Exception:  # noqa: BLE001  (counted as failed; the thread must outlive whatever a collector says)
                sent = False
            try:
                self._loop.call_soon_threadsafe(self._done, "sent" if sent else "failed")
            except RuntimeError:  # the loop has ended meanwhile
                return
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


class _Encoder:
    """Our spans as OpenTelemetry's."""

    def __init__(self, service_name: str, worker: int) -> None:
        release = version("lamina")
        self._scope = InstrumentationScope("lamina", release)
        named = {"service.name": service_name, "service.version": release, "service.instance.id": str(worker)}
        self._resource = Resource(named)

    def __call__(self, spans: Sequence[Span]) -> list[ReadableSpan]:
        return [self._one(span) for span in spans]

    def _one(self, span: Span) -> ReadableSpan:
        state = TraceState.from_header([span.state]) if span.state else None
        own = SpanContext(span.trace_id, span.span_id, is_remote=False, trace_flags=_SAMPLED, trace_state=state)
        parent = SpanContext(span.trace_id, span.parent_id, is_remote=span.remote) if span.parent_id else None
        attributes = {**span.attributes, "error.type": span.error} if span.error else span.attributes
        return ReadableSpan(
            span.name,
            own,
            parent,
            resource=self._resource,
            attributes=attributes,
            kind=_KINDS[span.kind],
            status=Status(StatusCode.ERROR) if span.error else Status(),
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )
