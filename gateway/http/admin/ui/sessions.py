"""Sessions in a signed cookie: who signed in, until when; no token is in it, and none can be made out of it."""

import base64
import binascii
import hashlib
import hmac
import secrets
import struct
from dataclasses import dataclass

SESSION_S = 8 * 3600
"""How long a session lasts, however much it is used."""

COOKIE = "lamina_session"
PATH = "/admin/ui"

_VERSION = b"\x01"
_NUMBER = struct.Struct(">d")
_NONCE_BYTES, _DIGEST_BYTES = 16, 32
_BODY_BYTES = 1 + _NUMBER.size + _NONCE_BYTES + _DIGEST_BYTES
_MAX_CHARS = 256


@dataclass(frozen=True, slots=True)
class Session:
    """A sign-in.

    Attributes:
        digest: SHA-256 of the key or token that signed in; looked up anew for each request.
        nonce: names the session.
        until_s: seconds since the epoch.
    """

    digest: bytes
    nonce: bytes
    until_s: float


class Sessions:
    """Makes and reads cookies.

    Args:
        secret: the set's master secret; sessions end when it changes.
    """

    def __init__(self, secret: bytes) -> None:
        self._cookie_key = hmac.digest(secret, b"lamina dashboard session", "sha256")
        self._form_key = hmac.digest(secret, b"lamina dashboard form", "sha256")

    def begin(self, digest: bytes, now_s: float) -> Session:
        """A new session."""
        return Session(digest, secrets.token_bytes(_NONCE_BYTES), now_s + SESSION_S)

    def sealed(self, session: Session) -> str:
        """The cookie's value."""
        body = _VERSION + _NUMBER.pack(session.until_s) + session.nonce + session.digest
        return base64.urlsafe_b64encode(body + hmac.digest(self._cookie_key, body, "sha256")).decode().rstrip("=")

    def opened(self, value: str, now_s: float) -> Session | None:
        """The session of a cookie; None for one that is over, changed, or not of ours."""
        if len(value) > _MAX_CHARS:
            return None
        try:
            raw = base64.b64decode(value + "=" * (-len(value) % 4), b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        body, mac = raw[:_BODY_BYTES], raw[_BODY_BYTES:]
        if len(body) != _BODY_BYTES or not hmac.compare_digest(hmac.digest(self._cookie_key, body, "sha256"), mac):
            return None
        (until_s,) = _NUMBER.unpack_from(body, 1)
        nonce = body[1 + _NUMBER.size : -_DIGEST_BYTES]
        session = Session(body[-_DIGEST_BYTES:], nonce, until_s)
        return session if body[:1] == _VERSION and now_s < until_s else None

    def form_word(self, session: Session) -> str:
        """What each form of this session must send along; no other site can know it."""
        return hmac.digest(self._form_key, session.nonce, "sha256").hex()


def token_digest(token: str) -> bytes:
    """A key or token as it is looked up."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def cookie_header(value: str, *, max_age_s: int, secure: bool) -> tuple[bytes, bytes]:
    """The header that sets the cookie, or, with an age of 0, takes it away."""
    parts = [f"{COOKIE}={value}", f"Path={PATH}", f"Max-Age={max_age_s}", "HttpOnly", "SameSite=Strict"]
    return b"set-cookie", "; ".join([*parts, "Secure"] if secure else parts).encode()
