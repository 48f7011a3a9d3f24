"""Traces of requests: one server span, and below it one span per layer; no text of prompts or answers.

Spans are plain values here; `traces_export` alone knows OpenTelemetry, and is loaded only when traces are on. A
span goes out as soon as it has ended, since a model call may outlive the request that began it.
"""

import random
import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from gateway.telemetry.trace_context import Parent, read_parent, traceparent

Value = str | int | float | bool | tuple[str, ...]
Kind = Literal["server", "client", "internal"]
_NS = 1_000_000_000
_MOST_CHARS = 200
_MOST_FAULTS = 8
_SERVER_ERROR = 500


@dataclass(slots=True)
class Span:
    """Something that took time.

    Attributes:
        parent_id: 0 for none.
        remote: whether the parent is another process'.
        state: the trace's `tracestate`, carried on unread.
        start_ns, end_ns: since the epoch; `end_ns` is 0 while it lasts.
        error: why it failed; empty when it did not.
    """

    name: str
    kind: Kind
    trace_id: int
    span_id: int
    parent_id: int
    start_ns: int
    attributes: dict[str, Value] = field(default_factory=dict)
    remote: bool = False
    state: str = ""
    end_ns: int = 0
    error: str = ""


class RequestTrace:
    """The trace of one request as far as this process sees it.

    Args:
        server: the request's own span.
        sampled: whether spans are recorded; the parent is handed on either way.
        put: takes each span that has ended.

    Attributes:
        guards: attributes of the latest span of guards, whose verdicts are told after it.
    """

    def __init__(self, server: Span, *, sampled: bool, put: Callable[[Span], None]) -> None:
        self.server = server
        self.sampled = sampled
        self._begun = time.perf_counter()
        self._put = put
        self._flight: Span | None = None
        self.guards: dict[str, Value] | None = None

    def layer(self, name: str, latency_s: float, attributes: dict[str, Value]) -> dict[str, Value]:
        """Records a layer that has just been passed; what is added to the returned attributes soon is sent too."""
        if self.sampled:
            span = self._child(name, "internal", attributes)
            span.end_ns = span.start_ns
            span.start_ns -= int(latency_s * _NS)
            self._put(span)
        return attributes

    def flight(self, role: str) -> None:
        """The request leads or joins a model call; what follows happens below that."""
        self._flight = self._child("flight", "internal", {"lamina.flight.role": role})

    def call(self, name: str, attributes: dict[str, Value]) -> Span:
        """A call to another process begins; `end` it."""
        return self._child(name, "client", attributes)

    def end(self, span: Span, error: str = "") -> None:
        """A call has ended."""
        span.error = error
        self._finish(span)

    def fault(self, part: str, reason: str) -> None:
        """Something failed and the request went on without it."""
        known = self.server.attributes.get("lamina.faults", ())
        if isinstance(known, tuple) and len(known) < _MOST_FAULTS:
            self.server.attributes["lamina.faults"] = (*known, f"{part}:{reason}"[:_MOST_CHARS])

    def finish(self, attributes: dict[str, Value], status: int) -> None:
        """The request is answered; harmless when done twice."""
        if self.server.end_ns:
            return
        self.server.attributes |= attributes
        self.server.error = str(status) if status >= _SERVER_ERROR else ""
        if self._flight is not None:
            self._finish(self._flight)
        self._finish(self.server)

    def headers(self, span: Span) -> dict[str, str]:
        """What makes a span the parent of the call it stands for."""
        named = {"traceparent": traceparent(span.trace_id, span.span_id, sampled=self.sampled)}
        return {**named, "tracestate": span.state} if span.state else named

    def _now_ns(self) -> int:
        return self.server.start_ns + int((time.perf_counter() - self._begun) * _NS)

    def _child(self, name: str, kind: Kind, attributes: dict[str, Value]) -> Span:
        above = self._flight or self.server
        return Span(
            name,
            kind,
            above.trace_id,
            random.getrandbits(64) or 1,
            above.span_id,
            self._now_ns(),
            attributes,
            state=above.state,
        )

    def _finish(self, span: Span) -> None:
        span.end_ns = self._now_ns()
        if self.sampled:
            self._put(span)


class Traces:
    """The traces of one worker; each task, and what it starts, knows the request it works for.

    Args:
        share: of the requests without a parent, those that are recorded.
        draw: a random number in [0, 1).
    """

    def __init__(self, share: float, draw: Callable[[], float] = random.random) -> None:
        self._share = share
        self._draw = draw
        self._current: ContextVar[RequestTrace | None] = ContextVar("trace", default=None)
        self._put: Callable[[Span], None] = _drop

    def send_to(self, put: Callable[[Span], None]) -> None:
        """Says where spans go that have ended; until then they are dropped."""
        self._put = put

    def begin(self, method: str, route: str, headers: Iterable[tuple[bytes, bytes]]) -> RequestTrace:
        """A request has come; from here on its task works for it."""
        parent = read_parent(headers)
        sampled = self._draw() < self._share if parent is None else parent.sampled
        above = parent or Parent(random.getrandbits(128) or 1, 0, sampled)
        server = Span(
            f"{method} {route}",
            "server",
            above.trace_id,
            random.getrandbits(64) or 1,
            above.span_id,
            time.time_ns(),
            {"http.request.method": method, "http.route": route},
            remote=parent is not None,
            state=above.state,
        )
        trace = RequestTrace(server, sampled=sampled, put=self._put)
        self._current.set(trace)
        return trace

    def current(self) -> RequestTrace | None:
        """The trace of the request that this task works for."""
        return self._current.get()


def shown(text: object) -> str:
    """Text from elsewhere, such as a model's name, within bounds."""
    return str(text)[:_MOST_CHARS]


def _drop(_span: Span) -> None:
    """Takes a span and forgets it."""
