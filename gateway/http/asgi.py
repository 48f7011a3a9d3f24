"""The ASGI vocabulary, and the few verbs every route needs: read a body, send one, tell an error."""

import asyncio
import re
import zlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, MutableMapping
from typing import Any

import brotli
import zstandard

from gateway.errors import ApiError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
Endpoint = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON = (b"content-type", b"application/json")
_CHUNK = 1 << 16
_MAX_HEADER_CHARS = 1024
_UNSENDABLE = re.compile(rb"[\x00-\x1f\x7f]")


class ClientGone(Exception):  # noqa: N818  (not an error: the client went away)
    """The client left before its request was read."""


async def read_body(receive: Receive, headers: Headers, max_bytes: int, deadline_s: float) -> bytes:
    """The decoded body.

    Raises:
        ApiError: 413 too large, before or after decoding; 408 too slow; 415 unknown encoding; 400 corrupt.
        ClientGone: the client left.
    """
    encoding = None
    for name, value in headers:
        if name == b"content-length" and value.isdigit() and int(value) > max_bytes:
            raise _too_large(max_bytes)
        if name == b"content-encoding":
            encoding = value.decode("latin-1").strip().lower()
    raw = await _within(deadline_s, _receive_all(receive, max_bytes))
    if encoding in (None, "", "identity"):
        return raw
    return decode(raw, encoding or "", max_bytes)


async def _within(deadline_s: float, receiving: Coroutine[Any, Any, bytes]) -> bytes:
    """The received body; a plain timer, since asyncio.timeout costs more than all the rest of reading a body."""
    task = asyncio.current_task()
    late = False

    def give_up() -> None:
        nonlocal late
        late = True
        if task is not None:
            task.cancel()

    timer = asyncio.get_running_loop().call_later(deadline_s, give_up)
    try:
        return await receiving
    except asyncio.CancelledError:
        if not late or task is None or task.uncancel() > 0:
            raise
        problem = f"The body did not arrive within {deadline_s:g} seconds."
        raise ApiError(408, problem, code="timeout", headers={"connection": "close"}) from None
    finally:
        timer.cancel()


async def _receive_all(receive: Receive, max_bytes: int) -> bytes:
    message = await receive()
    if message["type"] != "http.request":
        raise ClientGone
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
        return body
    parts = [body]
    size = len(body)
    while message.get("more_body"):
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        part = message.get("body", b"")
        size += len(part)
        if size > max_bytes:
            raise _too_large(max_bytes)
        parts.append(part)
    return b"".join(parts)


def decode(raw: bytes, encoding: str, max_bytes: int) -> bytes:
    """Undoes a Content-Encoding without ever holding more than `max_bytes` and one step.

    Raises:
        ApiError: 413, 415 or 400.
    """
    step = _DECODERS.get(encoding)
    if step is None:
        names = ", ".join(sorted(_DECODERS))
        raise ApiError(415, f"Content-Encoding {encoding[:40]!r} is not supported; send {names} or none.")
    out: list[bytes] = []
    size = 0
    try:
        for part in step(raw):
            size += len(part)
            if size > max_bytes:
                raise _too_large(max_bytes)
            out.append(part)
    except (zlib.error, brotli.error, zstandard.ZstdError, EOFError):
        raise ApiError(400, f"The body is not valid {encoding}.") from None
    return b"".join(out)


def _zlib_steps(raw: bytes, wbits: int) -> Iterable[bytes]:
    decoder = zlib.decompressobj(wbits)
    pending = raw
    while pending and not decoder.eof:
        yield decoder.decompress(pending, _CHUNK)
        pending = decoder.unconsumed_tail
    yield decoder.flush()
    if not decoder.eof:
        raise EOFError


def _brotli_steps(raw: bytes) -> Iterable[bytes]:
    decoder = brotli.Decompressor()
    yield decoder.process(raw, output_buffer_limit=_CHUNK)
    while not decoder.is_finished() and not decoder.can_accept_more_data():
        yield decoder.process(b"", output_buffer_limit=_CHUNK)
    if not decoder.is_finished():
        raise EOFError


def _zstd_steps(raw: bytes) -> Iterable[bytes]:
    with zstandard.ZstdDecompressor(max_window_size=1 << 23).stream_reader(raw) as reader:
        while part := reader.read(_CHUNK):
            yield part


_DECODERS: dict[str, Callable[[bytes], Iterable[bytes]]] = {
    "gzip": lambda raw: _zlib_steps(raw, 31),
    "deflate": lambda raw: _zlib_steps(raw, 15),
    "br": _brotli_steps,
    "zstd": _zstd_steps,
}


def _too_large(max_bytes: int) -> ApiError:
    return ApiError(413, f"The body is larger than {max_bytes} bytes.", code="request_too_large")


def header_value(text: str) -> bytes:
    """Text from elsewhere as a header's value: one line, within bounds, nothing that a server refuses to send."""
    return _UNSENDABLE.sub(b"?", text[:_MAX_HEADER_CHARS].encode("latin-1", "replace"))


async def send_whole(send: Send, status: int, headers: Headers, body: bytes) -> None:
    """A reply in one piece; adds Content-Length."""
    headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_empty(send: Send, status: int, headers: Headers) -> None:
    """A reply that has no body; a 204 must not carry Content-Length (RFC 9110, section 8.6)."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def until_gone(receive: Receive) -> None:
    """Returns when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
