"""uvicorn's HTTP/1.1 with the bounds it lacks: on the size and lateness of a head, and on clients that never read.

Without them a head of 64 MB costs seconds of a worker, since the parser's cost grows with the square of a header's
size; a head that never ends holds its connection for ever, and so does an answer that nobody takes.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_UNFRAMED_BYTES = 2 << 20
"""Most bytes that may come without completing a head or carrying a body: heads, chunk lines and trailers."""

UNFRAMED_WITHIN_S = 10.0
"""Longest time such bytes may take to lead to something."""

UNREAD_WITHIN_S = 60.0
"""Longest time a client may leave a full buffer of its answer unread."""


class OneWriteATurn:
    """A transport that joins what is written in one loop turn: head and body of a reply leave in one packet.

    Everything else is the transport's own.
    """

    def __init__(self, transport: asyncio.Transport, soon: Callable[[Callable[[], None]], object]) -> None:
        self._transport = transport
        self._soon = soon
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Sends at the end of this turn."""
        if not self._parts:
            self._soon(self.flush)
        self._parts.append(data)

    def flush(self) -> None:
        """Sends now."""
        parts, self._parts = self._parts, []
        if parts:
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def close(self) -> None:
        """Sends what there is, then closes."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class BoundedProtocol(HttpToolsProtocol):
    """One connection. What breaks a bound, or is no HTTP, gets a native error and the end of the connection."""

    _unframed_bytes = 0
    _late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Called by the loop; a connection on which nothing comes ends as an idle one does."""
        super().connection_made(cast("asyncio.Transport", OneWriteATurn(transport, self.loop.call_soon)))
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self._framed()
        self._taken()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Called by the transport: the client does not keep up."""
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_WITHIN_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Called by the transport."""
        self._taken()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self._unframed_bytes += len(data)
        super().data_received(data)
        if self._unframed_bytes > MAX_UNFRAMED_BYTES:
            self._refuse(431, f"The headers are larger than {MAX_UNFRAMED_BYTES} bytes.")
        elif self._unframed_bytes and self._late is None and not self.transport.is_closing():
            self._late = self.loop.call_later(UNFRAMED_WITHIN_S, self._too_late)

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        self._framed()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        self._framed()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        self._framed()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Called for what is no HTTP."""
        self._refuse(400, msg)

    def _taken(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _framed(self) -> None:
        self._unframed_bytes = 0
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_late(self) -> None:
        self._refuse(408, f"The headers did not arrive within {UNFRAMED_WITHIN_S:g} seconds.")

    def _refuse(self, status: int, problem: str) -> None:
        if self.transport.is_closing():
            return
        cycle = self.cycle  # None before the first request, whatever uvicorn's annotation says
        answering = cycle is not None and cycle.response_started  # type: ignore[redundant-expr]
        if not answering or cycle.response_complete:
            self.transport.write(_refusal(status, problem))
        self.transport.close()


def _refusal(status: int, problem: str) -> bytes:
    error = {"message": problem, "type": "invalid_request_error", "param": None, "code": None}
    body = orjson.dumps({"error": error})
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
