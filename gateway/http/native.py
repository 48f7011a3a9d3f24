"""Errors of no surface in particular, in the shape of the protocol that the client speaks."""

from collections.abc import Mapping

from gateway.errors import ApiError, UpstreamError
from gateway.http.asgi import JSON, Headers, Scope, Send, header_value, send_whole
from gateway.http.edge import new_id
from gateway.http.reply import cors, id_headers
from gateway.protocols import anthropic_errors, openai_chat

_ANTHROPIC = ("/v1/messages", "/messages")
_OPENAI = ("/v1/chat", "/chat")


def speaks_anthropic(headers: Headers) -> bool:
    """Whether a client of a path that both protocols have is one of Anthropic's."""
    return any(name == b"anthropic-version" for name, _ in headers)


async def send_error(scope: Scope, send: Send, error: ApiError | UpstreamError) -> None:
    """Answers with the error."""
    body = openai_chat.error_body(error) if isinstance(error, ApiError) else error.body
    request_id = new_id("req_")
    origin = next((value for name, value in scope["headers"] if name == b"origin"), None)
    headers: Headers = [JSON, *id_headers(request_id), *cors(origin)]
    headers.extend((name.lower().encode(), header_value(value)) for name, value in error.headers.items())
    await send_whole(send, error.status, headers, _native(scope, error.status, body, request_id))


def _native(scope: Scope, status: int, body: Mapping[str, object], request_id: str) -> bytes:
    if _under(scope["path"], _ANTHROPIC) or (
        not _under(scope["path"], _OPENAI) and speaks_anthropic(scope["headers"])
    ):
        return anthropic_errors.error_bytes(status, body, request_id)
    return openai_chat.error_bytes(body)


def _under(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)
