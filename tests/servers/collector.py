"""An OTLP/HTTP receiver: takes batches of spans as a collector does, and shows what came."""

import gzip
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Encoded

_KINDS = {Encoded.SPAN_KIND_SERVER: "server", Encoded.SPAN_KIND_CLIENT: "client"}


@dataclass(frozen=True, slots=True)
class Received:
    """One span as it came."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Any]
    failed: bool
    state: str


class Collector:
    """Listens on a free port of the loopback while its context lasts.

    Args:
        status: of each reply.
        delay_s: before it.

    Attributes:
        spans: all that came, in order.
        raw: the batches, unpacked.
        resources: attributes of each batch's resource.
    """

    def __init__(self, *, status: int = 200, delay_s: float = 0.0) -> None:
        self.spans: list[Received] = []
        self.raw: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.resources: list[dict[str, Any]] = []
        self._status = status
        self._delay_s = delay_s
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.block_on_close = False

    @property
    def endpoint(self) -> str:
        """For the settings."""
        return f"http://127.0.0.1:{self._server.server_port}/v1/traces"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def take(self, body: bytes) -> None:
        """Decodes one batch."""
        self.raw.append(body)
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append({pair.key: _value(pair.value) for pair in of_resource.resource.attributes})
            for scope in of_resource.scope_spans:
                self.spans.extend(_received(span) for span in scope.spans)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                packed = self.headers.get("content-encoding") == "gzip"
                time.sleep(collector._delay_s)
                collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                if self.path == "/v1/traces" and collector._status == 200:
                    collector.take(gzip.decompress(body) if packed else body)
                self.send_response(collector._status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                pass

        return Handler


def _received(span: Encoded) -> Received:
    return Received(
        span.name,
        _KINDS.get(span.kind, "internal"),
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        {pair.key: _value(pair.value) for pair in span.attributes},
        span.status.code == span.status.STATUS_CODE_ERROR,
        span.trace_state,
    )


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return tuple(_value(one) for one in value.array_value.values)
    return getattr(value, kind)
