"""Headers that every answer of the dashboard carries, and what is read from a request's."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from gateway.http.admin.ui.sessions import COOKIE
from gateway.http.asgi import Headers, Scope

POLICY = "; ".join(  # noqa: FLY002  (one directive a line)
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_ALWAYS: Headers = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
]
_HSTS = (b"strict-transport-security", b"max-age=31536000")


def answer_headers(*, secure: bool) -> Headers:
    """The headers of an answer; HSTS where the request came over TLS."""
    return [*_ALWAYS, _HSTS] if secure else list(_ALWAYS)


def header(scope: Scope, name: bytes) -> str:
    """A request's header; empty when there is none."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def is_secure(scope: Scope) -> bool:
    """Whether the browser came over TLS, to us or to a proxy in front.

    A browser that lies here only makes its own cookie stricter.
    """
    forwarded = header(scope, b"x-forwarded-proto").rpartition(",")[2].strip().lower()
    return scope.get("scheme") == "https" or forwarded == "https"


def session_cookie(scope: Scope) -> str:
    """The session's cookie; empty when there is none."""
    for pair in header(scope, b"cookie").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def same_origin(scope: Scope) -> bool:
    """Whether a form was sent by a page of ours, as far as the browser tells."""
    site = header(scope, b"sec-fetch-site")
    if site:
        return site in {"same-origin", "none"}
    origin = header(scope, b"origin")
    return not origin or urlsplit(origin).netloc == header(scope, b"host")


def first_values(pairs: list[tuple[str, str]]) -> Mapping[str, str]:
    """One value per name: the first."""
    found: dict[str, str] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found
