"""Errors that cross rooms.

LaminaError
├── SettingsError       a setting is unknown or bad; the process must not start
├── StoreUnavailable    Redis did not answer within its deadline, or its breaker is open
├── DatabaseUnavailable the SQL database did not answer
├── SemanticUnavailable the semantic layer did not answer within its deadline, or a breaker is open
├── ApiError            the request is answered with a native error object
└── UpstreamError       a provider failed; carries what the client shall see
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


class LaminaError(Exception):
    """Base of every error we raise on purpose."""


class SettingsError(LaminaError):
    """A setting is unknown or bad."""


class StoreUnavailable(LaminaError):  # noqa: N818  (a state, named as the metric is)
    """Redis did not answer within its deadline, or its breaker is open."""


class DatabaseUnavailable(LaminaError):  # noqa: N818
    """The SQL database did not answer."""


@dataclass(eq=False)
class SemanticUnavailable(LaminaError):  # noqa: N818
    """The semantic layer gave no answer that can be used.

    Attributes:
        reason: of the service: timeout, down (no connection, or the breaker is open), status (it answered with an
            error), garbled (the answer was not what was asked for); rows: the database did not bring the rows.
    """

    reason: Literal["timeout", "down", "status", "garbled", "rows"]

    def __str__(self) -> str:
        return f"semantic layer: {self.reason}"


@dataclass(eq=False)
class ApiError(LaminaError):
    """Becomes `{"error": {message, type, param, code}}` with this status.

    Attributes:
        headers: sent with the reply, such as Retry-After.
    """

    status: int
    message: str
    code: str | None = None
    param: str | None = None
    kind: str = "invalid_request_error"
    headers: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message


@dataclass(eq=False)
class UpstreamError(LaminaError):
    """A provider failed.

    Attributes:
        reason: connect (never reached it), timeout, status (it answered with an error), cut (the answer ended
            early), protocol (the answer was not what the protocol says), credentials (it does not take ours).
        status: HTTP status for the client: the upstream's own for `status`, else 502 or 504.
        body: OpenAI error body to relay; made up in the native shape when the upstream sent none.
        headers: upstream headers to relay (retry-after, x-ratelimit-*).
        advice: tells the operator what to mend, for the log alone; empty when there is nothing to say.
    """

    reason: Literal["connect", "timeout", "status", "cut", "protocol", "credentials"]
    status: int
    body: Mapping[str, object]
    headers: Mapping[str, str] = field(default_factory=dict)
    advice: str = ""

    def __str__(self) -> str:
        return f"upstream {self.reason} ({self.status})"
