"""The door for foreign errors: each HTTP-client exception and upstream refusal becomes an UpstreamError here."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import aiohttp
import orjson
from aiohttp import client_exceptions, http_exceptions

from gateway.errors import UpstreamError
from gateway.tls import tls_advice, tls_reason

Reason = Literal["connect", "timeout", "status", "cut", "protocol", "credentials"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What the client is told of one kind of failure."""

    reason: Reason
    status: int
    message: str


UNREACHABLE = Fault("connect", 502, "The model provider could not be reached.")
BUSY = Fault("connect", 504, "No connection to the model provider could be had in time.")
SILENT = Fault("timeout", 504, "The model provider did not answer in time.")
CUT = Fault("cut", 502, "The model provider ended its answer early.")
GARBLED = Fault("protocol", 502, "The model provider's answer could not be understood.")

FAULTS: Mapping[type[BaseException], Fault] = {
    aiohttp.ClientError: CUT,
    aiohttp.ClientConnectionError: CUT,
    aiohttp.ClientConnectionResetError: CUT,
    aiohttp.ClientConnectorCertificateError: UNREACHABLE,
    aiohttp.ClientConnectorDNSError: UNREACHABLE,
    aiohttp.ClientConnectorError: UNREACHABLE,
    aiohttp.ClientConnectorSSLError: UNREACHABLE,
    aiohttp.ClientHttpProxyError: UNREACHABLE,
    aiohttp.ClientOSError: CUT,
    aiohttp.ClientPayloadError: CUT,
    aiohttp.ClientProxyConnectionError: UNREACHABLE,
    aiohttp.ClientResponseError: GARBLED,
    aiohttp.ClientSSLError: UNREACHABLE,
    aiohttp.ConnectionTimeoutError: BUSY,
    aiohttp.ContentTypeError: GARBLED,
    aiohttp.InvalidURL: UNREACHABLE,
    aiohttp.InvalidUrlClientError: UNREACHABLE,
    aiohttp.InvalidUrlRedirectClientError: GARBLED,
    aiohttp.NonHttpUrlClientError: UNREACHABLE,
    aiohttp.NonHttpUrlRedirectClientError: GARBLED,
    aiohttp.RedirectClientError: GARBLED,
    aiohttp.ServerConnectionError: CUT,
    aiohttp.ServerDisconnectedError: CUT,
    aiohttp.ServerFingerprintMismatch: UNREACHABLE,
    aiohttp.ServerTimeoutError: SILENT,
    aiohttp.SocketTimeoutError: SILENT,
    aiohttp.TooManyRedirects: GARBLED,
    client_exceptions.UnixClientConnectorError: UNREACHABLE,
    http_exceptions.HttpProcessingError: GARBLED,
    TimeoutError: SILENT,
    ssl.SSLError: UNREACHABLE,
    ConnectionResetError: CUT,
    BrokenPipeError: CUT,
    OSError: UNREACHABLE,
}
"""Looked up along an exception's bases, nearest first."""

FOREIGN = tuple(FAULTS)
"""What a call into the HTTP client may raise, for `except`."""

_RELAYED = frozenset(
    {
        "retry-after",
        "retry-after-ms",
        "x-should-retry",
        "openai-organization",
        "openai-version",
        "openai-processing-ms",
        "x-lamina-prefix-miss",
    }
)
_RELAYED_PREFIX = "x-ratelimit-"
_TYPES = {403: "permission_error", 429: "rate_limit_error"}
_HINTS = {"rate_limit": 429, "insufficient_quota": 429, "overloaded": 503, "invalid_request": 400}
_OVERLOADED, _UNAVAILABLE = 529, 503
_UNAUTHORIZED, _FORBIDDEN = 401, 403
_CLIENT_ERRORS, _SERVER_ERRORS, _END = 400, 500, 600


def failed(fault: Fault) -> UpstreamError:
    """The error of a fault."""
    return UpstreamError(
        fault.reason, fault.status, _body(fault.message, "server_error", f"upstream_{fault.reason}")
    )


def from_foreign(error: BaseException) -> UpstreamError:
    """The error of an exception out of FOREIGN; its text is left behind, for it may hold addresses and headers."""
    known = next(FAULTS[base] for base in type(error).__mro__ if base in FAULTS)
    mapped = failed(known)
    mapped.add_note(type(error).__name__)
    mapped.advice = _advice(error)
    return mapped


def refused(status: int, raw: bytes, headers: Mapping[str, str]) -> UpstreamError:
    """The error of an upstream that answered with one: its status, its OpenAI-shaped body, the relayed headers.

    Another body is wrapped. A 401 or 403 is about the operator's credentials, which no client can mend, and would
    be taken for a word on the client's own key: it becomes a 502 that no SDK sends again, with a message of ours,
    as the upstream's quotes the key. Only a 403 that says what was wrong with the prompt is relayed as it is.

    Args:
        status: 200 when the error came in place of an answer: the body then tells the status.
        raw: the body, already redacted.
        headers: as `relayed` gives them.
    """
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        body = None
    error = _error_object(body)
    if status < _CLIENT_ERRORS:
        status = _told_status(error)
    status = _UNAVAILABLE if status == _OVERLOADED else status
    if status == _UNAUTHORIZED or (status == _FORBIDDEN and not _blames_the_prompt(error)):
        return _unwelcome(status, headers)
    kind = _TYPES.get(status, "invalid_request_error" if status < _SERVER_ERRORS else "server_error")
    if error is None:
        told = _body(f"The model provider answered with status {status}.", kind, None)
    else:
        told = {"error": {"type": kind, "param": None, "code": None, **error}}
    return UpstreamError("status", status, told, headers)


def relayed(headers: Mapping[str, str]) -> dict[str, str]:
    """The upstream headers that a client may see, names in lower case."""
    lower = ((name.lower(), value) for name, value in headers.items())
    return {name: value for name, value in lower if name in _RELAYED or name.startswith(_RELAYED_PREFIX)}


def _body(message: str, kind: str, code: str | None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _error_object(body: Any) -> dict[str, Any] | None:
    """The error object of the shapes that servers use; None when there is no message."""
    if not isinstance(body, dict):
        return None
    error = body.get("error", body)
    if isinstance(error, str):
        return {"message": error}
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return error if error is not body else {"message": body["message"]}
    return None


def _advice(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status}: check the setting proxy, and what that proxy lets through"
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return "the proxy could not be reached: check the setting proxy"
    return tls_advice(tls_reason(error) or "", "ca_file, or SSL_CERT_FILE")


def _unwelcome(status: int, headers: Mapping[str, str]) -> UpstreamError:
    message = "The model provider refused the gateway's credentials. Your own key is fine; tell the operator."
    body = _body(message, "server_error", "provider_credentials")
    advice = f"the provider answered {status}: check its api_key or headers, and what that key may use"
    return UpstreamError("credentials", 502, body, {**headers, "x-should-retry": "false"}, advice)


def _blames_the_prompt(error: Mapping[str, Any] | None) -> bool:
    """OpenRouter's way to say that its moderation flagged a prompt."""
    metadata = (error or {}).get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("reasons"))


def _told_status(error: Mapping[str, Any] | None) -> int:
    for name in ("status", "code", "type"):
        value = (error or {}).get(name)
        if isinstance(value, str) and value.isdecimal():
            value = int(value)
        if isinstance(value, int) and _CLIENT_ERRORS <= value < _END:
            return value
        if isinstance(value, str):
            for hint, status in _HINTS.items():
                if hint in value:
                    return status
    return 502
