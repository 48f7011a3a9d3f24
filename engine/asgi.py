"""Reading requests and writing replies as raw ASGI messages."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

import orjson

from engine.errors import RequestError
from engine.events import TokenEvent
from engine.protocol.reply_parts import error_body, error_event
from engine.worker import ClientGone, Generation

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MAX_BODY_BYTES = 8 << 20
_JSON = "application/json"
_EVENT_STREAM = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


class Reply(Protocol):
    """An answer being put together; the index is that of the sequence among the generation's."""

    @property
    def finished(self) -> bool:
        """Whether every choice has ended."""
        ...

    def take(self, index: int, told: TokenEvent) -> object:
        """Add an event."""
        ...

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """What a whole answer's headers tell, and those of a stream once `opening` was called."""
        ...

    def opening(self, index: int, told: TokenEvent) -> bytes:
        """Render what a stream begins with; looks at the first event, without adding it."""
        ...

    def chunks(self, index: int, told: TokenEvent) -> bytes:
        """Add an event and render what it adds to a stream; may be empty."""
        ...

    def closing(self) -> bytes:
        """Render the end of a stream."""
        ...

    def whole(self) -> bytes:
        """Render the answer as one object."""
        ...


async def read_json(receive: Receive) -> tuple[bool, Any]:
    """Read a body; the flag is false when the client left before its end.

    Raises:
        RequestError: 413 when it is too large, 400 when it is no JSON.
    """
    body = await _read_body(receive)
    if body is None:
        return False, None
    try:
        return True, orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestError(400, f"The request body is not valid JSON: {error}.") from error


async def watch(receive: Receive, generation: Generation) -> None:
    """Put `ClientGone` among a generation's events when the client hangs up."""
    while (await receive())["type"] != "http.disconnect":
        pass
    generation.events.put_nowait(ClientGone())


async def answer(generation: Generation, reply: Reply, send: Send) -> None:
    """Send a reply as one object, or nothing when the client has left.

    Raises:
        RequestError: what ended a sequence with an error.
    """
    while not reply.finished:
        told = await generation.events.get()
        if isinstance(told, ClientGone):
            return
        if told.error is not None:
            raise told.error
        reply.take(told.seq_id - generation.seq_ids[0], told)
    await send_body(send, 200, reply.whole(), extra=reply.headers)


async def stream(generation: Generation, reply: Reply, send: Send) -> None:
    """Send a reply as it comes; an error that is not the first thing to happen is an event.

    Raises:
        RequestError: what ended a sequence with an error before anything was sent.
    """
    told = await generation.events.get()
    if isinstance(told, ClientGone):
        return
    if told.error is not None:
        raise told.error
    opening = reply.opening(told.seq_id - generation.seq_ids[0], told)
    await send({"type": "http.response.start", "status": 200, "headers": [*_EVENT_STREAM, *reply.headers]})
    if opening:
        await _send_part(send, opening)
    while isinstance(told, TokenEvent):
        if told.error is not None:
            await _send_part(send, error_event(told.error), last=True)
            return
        if rendered := reply.chunks(told.seq_id - generation.seq_ids[0], told):
            await _send_part(send, rendered)
        if reply.finished:
            await _send_part(send, reply.closing(), last=True)
            return
        told = await generation.events.get()


async def send_error(send: Send, error: RequestError) -> None:
    """Send an error object."""
    extra = [] if error.retry_after_s is None else [(b"retry-after", b"%d" % error.retry_after_s)]
    await send_body(send, error.status, error_body(error), extra=extra)


async def send_body(
    send: Send, status: int, body: bytes, kind: str = _JSON, extra: list[tuple[bytes, bytes]] | None = None
) -> None:
    """Send a whole response."""
    headers = [(b"content-type", kind.encode()), (b"content-length", b"%d" % len(body)), *(extra or ())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await _send_part(send, body, last=True)


async def _send_part(send: Send, body: bytes, last: bool = False) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": not last})


async def _read_body(receive: Receive) -> bytes | None:
    """Read the request body; None when the client left before its end."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY_BYTES:
            raise RequestError(413, f"The request body is larger than {MAX_BODY_BYTES} bytes.")
        if not message.get("more_body", False):
            return b"".join(parts)
