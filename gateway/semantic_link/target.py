"""Where the semantic service is, and how to introduce ourselves."""

from dataclasses import dataclass, field
from typing import Self
from urllib.parse import unquote, urlsplit

from gateway.errors import SettingsError


@dataclass(frozen=True, slots=True)
class SemanticTarget:
    """A parsed URL: `unix:///path.sock`, `http://host:port` or `https://host:port`.

    Attributes:
        base: begins the URL of each request; has no slash at its end.
        path: Unix socket, or None.
        token: sent as a bearer token; None sends none.
    """

    base: str
    path: str | None = None
    token: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: str, token: str | None = None) -> Self:
        """Reads a URL.

        Raises:
            SettingsError: it is none, or names a host without a token: a port is open to more than us.
        """
        parts = urlsplit(url)
        if parts.scheme == "unix" and parts.path:
            return cls("http://semantic", unquote(parts.path), token)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError("semantic_url: give unix:///path.sock, http://host:port or https://host:port")
        if token is None:
            raise SettingsError("semantic_url: a service over TCP needs semantic.token")
        return cls(url.rstrip("/"), None, token)

    def headers(self) -> dict[str, str]:
        """Sent with each request."""
        kind = {"content-type": "application/msgpack", "accept": "application/msgpack", "user-agent": "lamina"}
        return kind if self.token is None else {**kind, "authorization": f"Bearer {self.token}"}
