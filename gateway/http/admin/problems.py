"""Errors as the administrator's routes tell them: `application/problem+json`. Source: RFC 9457."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from gateway.db import RecordError
from gateway.errors import ApiError, DatabaseUnavailable, StoreUnavailable
from gateway.http.admin.asked import AdminAsk
from gateway.http.asgi import Headers, header_value

MEDIA_TYPE = "application/problem+json"
_OF_RECORDS = {"not_found": 404, "conflict": 409, "invalid": 400}
_MOST_ERRORS = 20
_MOST_CHARS = 300


def problem_bytes(error: ApiError, more: Mapping[str, Any] | None = None) -> bytes:
    """The body that tells an error; `more` are members of its own."""
    code = error.code or error.kind
    body: dict[str, Any] = {
        "type": f"urn:lamina:problem:{code}",
        "title": HTTPStatus(error.status).phrase,
        "status": error.status,
        "detail": error.message,
        "code": code,
    }
    if error.param:
        body["param"] = error.param
    return orjson.dumps({**body, **(more or {})})


def problem_headers(error: ApiError) -> Headers:
    """The headers that go with it."""
    told = [(name.lower().encode(), header_value(value)) for name, value in error.headers.items()]
    return [(b"content-type", MEDIA_TYPE.encode()), *told]


def as_api_error(error: Exception) -> ApiError:
    """What an error means to whoever asked; anything unforeseen is a fault of ours."""
    match error:
        case ApiError():
            return error
        case RecordError():
            return ApiError(_OF_RECORDS[error.reason], _sentence(str(error)), code=error.reason)
        case DatabaseUnavailable():
            return _away("The database does not answer. Try again shortly.", "database_unavailable")
        case StoreUnavailable():
            return _away("Redis does not answer. Try again shortly.", "store_unavailable")
        case RequestValidationError():
            return _invalid(error.errors())
        case HTTPException():
            return ApiError(error.status_code, _sentence(error.detail), code=_CODES.get(error.status_code))
        case _:
            return ApiError(500, "The gateway failed on this request.", code="fault", kind="server_error")


async def tell(request: Request, error: Exception) -> Response:
    """FastAPI's way to the problem; every kind of error is registered with it."""
    found = as_api_error(error)
    ask: AdminAsk = request.scope[AdminAsk.IN_SCOPE]
    ask.reason = found.code or found.kind
    more = {"errors": _listed(error.errors())} if isinstance(error, RequestValidationError) else None
    response = Response(problem_bytes(found, more), found.status, media_type=MEDIA_TYPE)
    for name, value in found.headers.items():
        response.headers[name] = header_value(value).decode("latin-1")
    if isinstance(error, HTTPException) and error.headers:
        response.headers.update(error.headers)
    return response


_CODES = {404: "no_such_route", 405: "method_not_allowed"}

ERRORS: tuple[type[Exception], ...] = (
    ApiError,
    RecordError,
    DatabaseUnavailable,
    StoreUnavailable,
    RequestValidationError,
    HTTPException,
    Exception,
)
"""What `tell` is registered for."""


def _away(why: str, code: str) -> ApiError:
    return ApiError(503, why, code=code, kind="server_error", headers={"retry-after": "1"})


def _invalid(errors: Sequence[Any]) -> ApiError:
    listed = _listed(errors)
    where = listed[0]["where"] if listed else "request"
    told = f"{where}: {listed[0]['problem']}" if listed else "The request is not understood"
    param = where.rpartition(".")[2] or None
    return ApiError(400, _sentence(told), code="invalid_request", param=param)


def _listed(errors: Sequence[Any]) -> list[dict[str, str]]:
    """Where and why, without what was sent."""
    return [
        {
            "where": ".".join(str(step)[:80] for step in error["loc"]),
            "problem": str(error["msg"]).removeprefix("Value error, ")[:_MOST_CHARS],
        }
        for error in errors[:_MOST_ERRORS]
    ]


def _sentence(text: str) -> str:
    made = text[:1].upper() + text[1:] if not text[:1].isascii() or text[:1].isalpha() else text
    return made if made.endswith((".", "!", "?")) else f"{made}."
