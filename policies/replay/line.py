"""One line of a request log."""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from policies.types import Json

DEFAULT_TENANT = "default"
DEFAULT_MODEL = "m"


class LineError(ValueError):
    """The object is no line of a request log; the message says what is wrong without quoting texts."""


class Line(msgspec.Struct, frozen=True):
    """One request that was made, in neutral form.

    Attributes:
        t_s: when, in seconds from any beginning.
        model: asked for; the name only tells requests apart.
        body: chat fields without `model`.
        headers: cache controls that came with it.
        answer: what the model said; None when the log does not have it.
        truth: equal for requests with the same right answer; None when nobody knows.
        prompt_tokens, completion_tokens: of the model's call; 0 when not known.
        latency_ms: that the model took; 0 when not known.
    """

    t_s: float
    tenant: str
    model: str
    body: Json
    headers: tuple[tuple[bytes, bytes], ...] = ()
    answer: str | None = None
    truth: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_ms: float = 0.0


def read_line(read: object, after_s: float = 0.0) -> Line:
    """Reads a line.

    Args:
        read: a JSON value, strictly parsed. Of an object: `request` (a chat body) or `prompt` (a text, with
            `system` and `model` beside it), and `t`, `tenant`, `headers`, `answer`, `answer_id` or `cluster`,
            `prompt_tokens`, `completion_tokens`, `latency_ms`, all of them optional; other fields are let be.
        after_s: time of the line before, which this one may not precede, and has when it names none.

    Raises:
        LineError: it is none.
    """
    if not isinstance(read, dict):
        raise LineError("it is no JSON object")
    t_s = _number(read, "t", after_s)
    if t_s < after_s:
        raise LineError("'t' lies before the line above; sort the log by time")
    body = _body(read)
    model = body.pop("model", None) or read.get("model") or DEFAULT_MODEL
    return Line(
        t_s=t_s,
        tenant=_text(read, "tenant") or DEFAULT_TENANT,
        model=str(model),
        body=body,
        headers=_headers(read.get("headers")),
        answer=_text(read, "answer"),
        truth=_truth(read),
        prompt_tokens=int(_number(read, "prompt_tokens", 0)),
        completion_tokens=int(_number(read, "completion_tokens", 0)),
        latency_ms=_number(read, "latency_ms", 0.0),
    )


def _body(read: Mapping[str, Any]) -> Json:
    request, prompt = read.get("request"), read.get("prompt")
    if isinstance(request, dict):
        messages = request.get("messages")
        if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
            raise LineError("'request' has no list of messages")
        return dict(request)
    if not isinstance(prompt, str):
        raise LineError("it has neither a 'request' (a chat body) nor a 'prompt' (a text)")
    messages = [{"role": "user", "content": prompt}]
    system = _text(read, "system")
    if system:
        messages.insert(0, {"role": "system", "content": system})
    return {"messages": messages}


def _truth(read: Mapping[str, Any]) -> str | None:
    """The truth as text: 7 and "7" of two exporters are one, and no id equals a cluster of the same name."""
    for name in ("answer_id", "cluster"):
        value = read.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool):
            return f"{name}={value}"
        if value is not None:
            raise LineError(f"'{name}' must be a text or an integer")
    return None


def _headers(given: object) -> tuple[tuple[bytes, bytes], ...]:
    if given is None:
        return ()
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise LineError("'headers' must be an object of texts")
    return tuple((name.lower().encode(), value.encode()) for name, value in given.items())


def _text(read: Mapping[str, Any], name: str) -> str | None:
    value = read.get(name)
    if value is not None and not isinstance(value, str):
        raise LineError(f"'{name}' must be a text")
    return value


def _number(read: Mapping[str, Any], name: str, otherwise: float) -> float:
    value = read.get(name)
    if value is None:
        return otherwise
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise LineError(f"'{name}' must be a number of at least 0")
    return float(value)
