"""Structured logs: JSON lines on standard output, without prompt text, answers or secrets.

Only the fields listed in FIELDS can be logged; anything else is dropped and counted in the event, so that a
careless call cannot leak a body.
"""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import orjson
import structlog

FIELDS: frozenset[str] = frozenset(
    {
        "age_s",
        "cache",
        "code",
        "completion_tokens",
        "count",
        "epoch",
        "error",
        "event",
        "key_id",
        "latency_ms",
        "level",
        "model",
        "part",
        "prompt_tokens",
        "provider",
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


def make_logger(level: str, worker: int) -> structlog.typing.FilteringBoundLogger:
    """A logger of its own; nothing global is configured.

    Args:
        level: debug, info, warning or error; lower events cost nothing.
        worker: the process id, bound to each event.
    """
    logger: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        structlog.BytesLogger(sys.stdout.buffer),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            only_known_fields,
            structlog.processors.JSONRenderer(serializer=_json),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        cache_logger_on_first_use=True,
    )
    return logger.bind(worker=worker)


def only_known_fields(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Drops fields that are not listed and cuts long texts."""
    kept: dict[str, Any] = {}
    dropped = 0
    for name, value in event.items():
        if name not in FIELDS:
            dropped += 1
        elif isinstance(value, str) and len(value) > _MAX_TEXT_CHARS:
            kept[name] = value[:_MAX_TEXT_CHARS] + "…"
        else:
            kept[name] = value
    if dropped:
        kept["dropped_fields"] = dropped
    return kept


def _json(event: Any, **_options: Any) -> bytes:
    return orjson.dumps(event, default=str)
