"""What every route does at the edge: take the credential, give ids, keep a trace for the log."""

import hashlib
import random
from dataclasses import dataclass

from gateway.http.asgi import Headers
from gateway.pipeline import unauthorised
from gateway.routes import Target
from policies.types import Json

_MAX_KEY_CHARS = 512


@dataclass(slots=True)
class Trace:
    """What one request did, for its log event, metrics and ledger; filled in on the way.

    Attributes:
        target: who answered, or would have been asked.
        took_s: how long the model took when it gave a stored answer.
    """

    route: str
    request_id: str
    begun: float
    origin: bytes | None = None
    status: int = 0
    source: str = "none"
    cache: str = "-"
    reason: str = "-"
    model: str = "-"
    tenant_id: str = "-"
    key_id: str = "-"
    stream: bool = False
    ttft_s: float | None = None
    usage: Json | None = None
    target: Target | None = None
    took_s: float = 0.0


def bearer_digest(headers: Headers) -> bytes:
    """SHA-256 of the key: that of `x-api-key` when there is one, else the bearer key.

    Raises:
        ApiError: 401 when there is none or it cannot be one.
    """
    key = bearer = b""
    for name, value in headers:
        if name == b"authorization" and not bearer:
            bearer = value
        elif name == b"x-api-key" and not key:
            key = value.strip()
    if not key and bearer[:7].lower() == b"bearer ":
        key = bearer[7:].strip()
    if 0 < len(key) <= _MAX_KEY_CHARS:
        return hashlib.sha256(key).digest()
    raise unauthorised()


def new_id(prefix: str) -> str:
    """A fresh id; ids are never reused, not even for the same stored answer."""
    return f"{prefix}{random.getrandbits(96):024x}"
