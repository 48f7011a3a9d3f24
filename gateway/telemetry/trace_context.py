"""W3C Trace Context (Recommendation of 2021-11-23): who began a trace, and who carries it on. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

TRACEPARENT = b"traceparent"
TRACESTATE = b"tracestate"
_SAMPLED = 0x01
_PARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_STATE = re.compile(r"[\x20-\x7e]{1,512}")
_FIRST_VERSION, _NO_VERSION = b"00", b"ff"


@dataclass(frozen=True, slots=True)
class Parent:
    """The span that a request comes from.

    Attributes:
        sampled: whether its trace is recorded.
        state: what other vendors want carried on, unread.
    """

    trace_id: int
    span_id: int
    sampled: bool
    state: str = ""


def read_parent(headers: Iterable[tuple[bytes, bytes]]) -> Parent | None:
    """The parent that a request's headers name; None where they name none, two, or one that is not valid.

    Source: Trace Context §3.2 (traceparent), §3.3 (tracestate is dropped with an invalid traceparent).
    """
    named: list[bytes] = []
    states: list[bytes] = []
    for name, value in headers:
        if name == TRACEPARENT:
            named.append(value.strip())
        elif name == TRACESTATE:
            states.append(value.strip())
    found = _PARENT.fullmatch(named[0]) if len(named) == 1 else None
    if found is None:
        return None
    version, trace, span, flags, rest = found.groups()
    trace_id, span_id = int(trace, 16), int(span, 16)
    if version == _NO_VERSION or (version == _FIRST_VERSION and rest) or not (trace_id and span_id):
        return None
    state = b",".join(states).decode("latin-1")
    return Parent(
        trace_id, span_id, bool(int(flags, 16) & _SAMPLED), state if _STATE.fullmatch(state) is not None else ""
    )


def traceparent(trace_id: int, span_id: int, *, sampled: bool) -> str:
    """The header that makes this span the parent of what is asked."""
    return f"00-{trace_id:032x}-{span_id:016x}-{_SAMPLED if sampled else 0:02x}"
