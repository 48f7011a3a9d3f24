"""OpenAI chat on the wire, pure: a strict body in, a neutral request out; errors in their native shape.

Every field of the published schema is accepted; unknown ones are kept, keyed and forwarded.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from gateway.errors import ApiError
from policies.controls import strip_controls
from policies.types import ChatRequest, Json

_NOT_FORWARDED = frozenset({"model", "stream", "stream_options"})
_ROUTING_FIELDS = ("api_base", "base_url", "endpoint", "api_key", "extra_headers")


def read_request(body: Any, max_n: int) -> ChatRequest:
    """The neutral request of a strictly parsed body.

    Args:
        body: any JSON value.
        max_n: largest `n` allowed.

    Raises:
        ApiError: 400 that names the field.
    """
    if not isinstance(body, dict):
        raise ApiError(400, "The body must be a JSON object.")
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise ApiError(400, "You must provide a model parameter: a name from `GET /v1/models`.", param="model")
    _check_messages(body.get("messages"))
    for name in _ROUTING_FIELDS:
        if name in body:
            raise ApiError(400, f"`{name}` is not accepted in a request: routes are the operator's.", param=name)
    stream = body.get("stream")
    if stream is not None and not isinstance(stream, bool):
        raise ApiError(400, "`stream` must be true or false.", param="stream")
    n = body.get("n")
    if n is not None and (type(n) is not int or not 1 <= n <= max_n):
        raise ApiError(400, f"`n` must be a whole number from 1 to {max_n}.", param="n")
    include_usage = _include_usage(body.get("stream_options"), stream=bool(stream))
    rest = {name: value for name, value in strip_controls(body).items() if name not in _NOT_FORWARDED}
    return ChatRequest(model, rest, stream=bool(stream), include_usage=include_usage)


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list) or not messages:
        raise ApiError(400, "`messages` must be a list of at least one message.", param="messages")
    for position, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            where = f"messages[{position}]"
            raise ApiError(400, f"`{where}` must be an object with a `role`.", param=where)


def _include_usage(options: Any, *, stream: bool) -> bool:
    if options is None:
        return False
    if not isinstance(options, dict):
        raise ApiError(400, "`stream_options` must be an object.", param="stream_options")
    if not stream:
        raise ApiError(400, "`stream_options` is only allowed with `stream: true`.", param="stream_options")
    return options.get("include_usage") is True


def error_body(error: ApiError) -> Json:
    """The native error object; all four keys are always there."""
    return {
        "error": {"message": error.message, "type": error.kind, "param": error.param, "code": error.code},
    }


def error_bytes(body: Mapping[str, object]) -> bytes:
    """An error body as sent."""
    return orjson.dumps(body)
