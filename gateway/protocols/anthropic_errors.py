"""Neutral errors in Anthropic's shape; pure."""

from collections.abc import Mapping
from typing import Any

import orjson

from policies.types import Json

_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_SERVER_ERROR = 500


def error_object(status: int, body: Mapping[str, Any], request_id: str) -> Json:
    """A neutral error body (OpenAI's shape) as Anthropic's; the type follows from the status."""
    error = body.get("error")
    told = error.get("message") if isinstance(error, Mapping) else None
    kind = _TYPES.get(status, "api_error" if status >= _SERVER_ERROR else "invalid_request_error")
    message = told if isinstance(told, str) else f"The request failed with status {status}."
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}


def error_bytes(status: int, body: Mapping[str, Any], request_id: str) -> bytes:
    """The same as sent."""
    return orjson.dumps(error_object(status, body, request_id))
