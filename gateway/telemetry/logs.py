"""Structured logs: JSON lines on standard output, without prompt text, answers or secrets.

Only the fields listed in FIELDS can be logged; anything else is dropped and counted in the event, so that a
careless call cannot leak a body.
"""

import logging
import sys
import time
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any, BinaryIO, cast

import orjson
import structlog

FIELDS: frozenset[str] = frozenset(
    {
        "actor",
        "age_s",
        "by_s",
        "cache",
        "cached_tokens",
        "code",
        "completion_tokens",
        "count",
        "epoch",
        "error",
        "event",
        "how",
        "key_id",
        "latency_ms",
        "level",
        "model",
        "neighbours",
        "part",
        "prompt_tokens",
        "provider",
        "purge_seq",
        "reason",
        "request_id",
        "route",
        "source",
        "status",
        "stored",
        "stream",
        "tenant_id",
        "timestamp",
        "ttft_ms",
        "worker",
    }
)
_MAX_TEXT_CHARS = 300
_MAY_BE_LONG = ("error", "model", "reason", "event")


class LinesOfATurn:
    """A file for log lines that writes once per loop turn: a busy worker makes many lines in one.

    Args:
        soon: `loop.call_soon`.
        out: where the lines go.
    """

    def __init__(self, soon: Callable[[Callable[[], None]], object], out: BinaryIO) -> None:
        self._soon = soon
        self._out = out
        self._lines: list[bytes] = []

    def write(self, line: bytes) -> None:
        """Keeps a line until the turn ends."""
        if not self._lines:
            self._soon(self.drain)
        self._lines.append(line)

    def flush(self) -> None:
        """Nothing: the turn's end writes."""

    def drain(self) -> None:
        """Writes what there is."""
        lines, self._lines = self._lines, []
        if lines:
            self._out.write(b"".join(lines))
            self._out.flush()


def make_logger(level: str, worker: int, out: LinesOfATurn | None = None) -> structlog.typing.FilteringBoundLogger:
    """A logger of its own; nothing global is configured.

    Args:
        level: debug, info, warning or error; lower events cost nothing.
        worker: the process id, bound to each event.
        out: standard output when None.
    """
    logger: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        structlog.BytesLogger(cast("BinaryIO", out or sys.stdout.buffer)),
        processors=[Renderer(time.time)],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        cache_logger_on_first_use=True,
    )
    return logger.bind(worker=worker)


class RequestLog:
    """Writes the one event of each request in the shape of every other; bare, since it is on the path of a hit."""

    def __init__(self, level: str, worker: int, out: LinesOfATurn) -> None:
        self._silent = getattr(logging, level.upper()) > logging.INFO
        self._worker = worker
        self._out = out
        self._render = Renderer(time.time)

    def __call__(self, event: dict[str, Any]) -> None:
        """One request's fields."""
        if not self._silent:
            event["event"] = "request"
            event["worker"] = self._worker
            self._out.write(self._render(None, "info", event) + b"\n")


class Renderer:
    """The one processor: adds level and time, drops what is not listed, cuts long texts, writes JSON.

    One function, since a chain of them costs as much as a whole look-up.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._second = 0
        self._shown_second = ""

    def __call__(self, _logger: Any, level: str, event: MutableMapping[str, Any]) -> bytes:
        """One event as a line."""
        event["level"] = level
        event["timestamp"] = self._timestamp()
        return orjson.dumps(only_known_fields(event), default=str)

    def _timestamp(self) -> str:
        now_s = self._now_s()
        second = int(now_s)
        if second != self._second:
            self._second = second
            self._shown_second = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._shown_second}.{int((now_s - second) * 1e6):06d}Z"


def only_known_fields(event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Drops fields that are not listed and cuts those that may be long."""
    unknown = event.keys() - FIELDS
    for name in unknown:
        del event[name]
    if unknown:
        event["dropped_fields"] = len(unknown)
    for name in _MAY_BE_LONG:
        value = event.get(name)
        if isinstance(value, str) and len(value) > _MAX_TEXT_CHARS:
            event[name] = value[:_MAX_TEXT_CHARS] + "…"
    return event
