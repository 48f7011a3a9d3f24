"""What every route does at the edge: take the credential, give ids, keep a trace for the log."""

import hashlib
import os
from dataclasses import dataclass

from gateway.http.asgi import Headers
from gateway.pipeline import unauthorised
from policies.types import Json

_MAX_KEY_CHARS = 512
_CREDENTIALS = (b"x-api-key", b"authorization")


@dataclass(slots=True)
class Trace:
    """What one request did, for its log event and metrics; filled in on the way."""

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


def bearer_digest(headers: Headers) -> bytes:
    """SHA-256 of the key: that of `x-api-key` when there is one, else the bearer key.

    Raises:
        ApiError: 401 when there is none or it cannot be one.
    """
    named = {name: value for name, value in reversed(headers) if name in _CREDENTIALS}
    key = named.get(b"x-api-key", b"").strip()
    if not key:
        scheme, _, bearer = named.get(b"authorization", b"").partition(b" ")
        key = bearer.strip() if scheme.lower() == b"bearer" else b""
    if 0 < len(key) <= _MAX_KEY_CHARS:
        return hashlib.sha256(key).digest()
    raise unauthorised()


def new_id(prefix: str) -> str:
    """A fresh id; ids are never reused, not even for the same stored answer."""
    return prefix + os.urandom(12).hex()
