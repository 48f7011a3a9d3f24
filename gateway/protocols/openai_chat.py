"""OpenAI chat on the wire, pure: a strict body in, a neutral request out; errors in their native shape.

Every field of the published schema is accepted; unknown ones are kept, keyed and forwarded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.errors import ApiError
from gateway.protocols.dialect import RawHeaders
from gateway.protocols.head import read_head
from gateway.protocols.render import render_chunks, render_completion
from gateway.protocols.sse import DONE, error_event, event_bytes
from policies.controls import strip_controls
from policies.types import ChatRequest, ChatResponse, Json

_EARLY = frozenset({"prompt_usage"})
_ANY_USAGE = frozenset({"prompt_usage", "usage"})
_NOT_FORWARDED = frozenset({"model", "stream", "stream_options"})


def read_request(body: Any, max_n: int) -> ChatRequest:
    """The neutral request of a strictly parsed body.

    Args:
        body: any JSON value.
        max_n: largest `n` allowed.

    Raises:
        ApiError: 400 that names the field.
    """
    body, model, stream = read_head(body)
    _check_messages(body.get("messages"))
    n = body.get("n")
    if n is not None and (type(n) is not int or not 1 <= n <= max_n):
        raise ApiError(400, f"`n` must be a whole number from 1 to {max_n}.", param="n")
    include_usage = stream and _include_usage(body.get("stream_options"))
    rest = {name: value for name, value in strip_controls(body).items() if name not in _NOT_FORWARDED}
    return ChatRequest(model, rest, stream=stream, include_usage=include_usage)


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list) or not messages:
        raise ApiError(400, "`messages` must be a list of at least one message.", param="messages")
    for position, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            where = f"messages[{position}]"
            raise ApiError(400, f"`{where}` must be an object with a `role`.", param=where)


def _include_usage(options: Any) -> bool:
    if options is None:
        return False
    if not isinstance(options, dict):
        raise ApiError(400, "`stream_options` must be an object.", param="stream_options")
    return options.get("include_usage") is True


def error_body(error: ApiError) -> Json:
    """The native error object; all four keys are always there."""
    return {
        "error": {"message": error.message, "type": error.kind, "param": error.param, "code": error.code},
    }


def error_bytes(body: Mapping[str, object]) -> bytes:
    """An error body as sent."""
    return orjson.dumps(body)


class OpenAIChat:
    """The chat completions protocol. Meets Dialect."""

    id_prefix = "chatcmpl-"
    keeps_stream_ids = True
    read_with = ()

    def read(self, body: Any, headers: RawHeaders, max_n: int) -> ChatRequest:
        """See Dialect."""
        del headers
        return read_request(body, max_n)

    def whole(self, response: ChatResponse, answer_id: str, created: int, model: str) -> bytes:
        """See Dialect."""
        return orjson.dumps(render_completion(response, answer_id, created, response.model or model))

    def events(self, answer_id: str | None, created: int, *, model: str, include_usage: bool) -> "OpenAIEvents":
        """See Dialect."""
        return OpenAIEvents(answer_id, created, model, include_usage)

    def error(self, status: int, body: Mapping[str, Any], request_id: str) -> bytes:
        """See Dialect; the neutral shape is this protocol's own."""
        del status, request_id
        return error_bytes(body)


@dataclass(frozen=True, slots=True)
class OpenAIEvents:
    """A stream of chunks. Meets Events.

    Usage is shown only to a client that asked for it, and the engine's early `prompt_usage` to none: clients add
    up what they see. One that joined another's call sees an id of its own.
    """

    answer_id: str | None
    created: int
    model: str
    include_usage: bool

    def chunks(self, batch: Sequence[Json]) -> bytes:
        """See Events."""
        shown = [self._shown(chunk) for chunk in batch]
        return b"".join([event_bytes(chunk) for chunk in shown if chunk is not None])

    def _shown(self, chunk: Json) -> Json | None:
        hidden = _EARLY if self.include_usage else _ANY_USAGE
        if not hidden.isdisjoint(chunk):
            if not self.include_usage and not chunk.get("choices"):
                return None
            chunk = {name: value for name, value in chunk.items() if name not in hidden}
        return chunk if self.answer_id is None else {**chunk, "id": self.answer_id}

    def replay(self, response: ChatResponse) -> bytes:
        """See Events."""
        answer_id, model = self.answer_id or response.id, response.model or self.model
        chunks = render_chunks(response, answer_id, self.created, model, include_usage=self.include_usage)
        return b"".join(map(event_bytes, chunks))

    def failed(self, status: int, body: Mapping[str, Any], request_id: str) -> bytes:
        """See Events."""
        del status, request_id
        return error_event(body)

    def end(self) -> bytes:
        """See Events."""
        return DONE
