"""Server-sent events, pure: bytes to events and back. Source: WHATWG HTML, section 9.2.6."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

DONE = b"data: [DONE]\n\n"
"""The event that ends every OpenAI stream."""

_BOM = b"\xef\xbb\xbf"


class SseError(ValueError):
    """The stream broke a bound: a line or an event is too long."""


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event.

    Attributes:
        data: the data lines joined by LF. UTF-8 as it came: lines are only cut at CR and LF, so a character
            that was split across reads is whole again here.
        name: of the `event:` line; empty when there was none.
    """

    data: bytes
    name: str = ""


class SseParser:
    """Takes a byte stream in pieces of any size and gives its events; any split gives the same events.

    Comments, `id:`, `retry:` and unknown fields are dropped. Work is linear in the bytes fed.

    Args:
        max_line_bytes: longest line, without its end.
        max_event_bytes: most data in one event.
    """

    __slots__ = (
        "_after_cr",
        "_data",
        "_data_bytes",
        "_first",
        "_max_event_bytes",
        "_max_line_bytes",
        "_name",
        "_tail",
        "_tail_bytes",
    )

    def __init__(self, max_line_bytes: int = 8 << 20, max_event_bytes: int = 16 << 20) -> None:
        self._max_line_bytes = max_line_bytes
        self._max_event_bytes = max_event_bytes
        self._tail: list[bytes] = []
        self._tail_bytes = 0
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._name = ""
        self._first = True
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that `chunk` completes, in order.

        Raises:
            SseError: a line or an event is longer than allowed; the parser is of no use after that.
        """
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk[:1] == b"\n":
                chunk = chunk[1:]
        if not chunk:
            return []
        if b"\n" not in chunk and b"\r" not in chunk:
            self._keep(chunk)
            return []
        lines = chunk.splitlines()
        rest = b"" if chunk[-1] in b"\r\n" else lines.pop()
        self._after_cr = chunk[-1:] == b"\r"
        self._tail.append(lines[0])
        lines[0] = b"".join(self._tail)
        self._tail.clear()
        self._tail_bytes = 0
        events: list[SseEvent] = []
        for line in lines:
            self._line(line, events)
        if rest:
            self._keep(rest)
        return events

    def finish(self) -> SseEvent | None:
        """What the end of the stream leaves behind without its blank line.

        The standard drops it; a reader may still look whether it was the terminal event.
        """
        events: list[SseEvent] = []
        if self._tail:
            self._line(b"".join(self._tail), events)
            self._tail.clear()
        self._dispatch(events)
        return events[-1] if events else None

    def _keep(self, part: bytes) -> None:
        self._tail.append(part)
        self._tail_bytes += len(part)
        if self._tail_bytes > self._max_line_bytes:
            raise SseError("a line of the stream is too long")

    def _line(self, line: bytes, events: list[SseEvent]) -> None:
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(events)
            return
        if len(line) > self._max_line_bytes:
            raise SseError("a line of the stream is too long")
        field, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if field == b"data":
            self._data.append(value)
            self._data_bytes += len(value) + 1
            if self._data_bytes > self._max_event_bytes:
                raise SseError("an event of the stream is too long")
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")

    def _dispatch(self, events: list[SseEvent]) -> None:
        if self._data:
            events.append(SseEvent(b"\n".join(self._data), self._name))
            self._data.clear()
            self._data_bytes = 0
        self._name = ""


def event_bytes(value: object) -> bytes:
    """`value` as JSON in one unnamed event."""
    return b"data: " + orjson.dumps(value) + b"\n\n"


def error_event(body: Mapping[str, Any]) -> bytes:
    """An OpenAI error body (`{"error": {…}}`) as the event that ends a stream which cannot go on."""
    return event_bytes(dict(body))
