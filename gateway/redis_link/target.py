"""Where Redis is and how to introduce ourselves."""

import ssl
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

from gateway.errors import SettingsError

_DEFAULT_PORT = 6379


@dataclass(frozen=True, slots=True)
class RedisTarget:
    """A parsed Redis URL: `redis://`, `rediss://` or `unix://`; the password never shows in repr.

    Attributes:
        path: Unix socket, or None.
        tls: whether to verify and encrypt.
    """

    host: str = "localhost"
    port: int = _DEFAULT_PORT
    path: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    database: int = 0
    tls: bool = False

    @classmethod
    def parse(cls, url: str) -> "RedisTarget":
        """Reads a URL.

        Raises:
            SettingsError: it is not one; the message does not repeat it.
        """
        parts = urlsplit(url)
        try:
            port = parts.port or _DEFAULT_PORT
            text = parse_qs(parts.query).get("db", [parts.path.strip("/") if parts.scheme != "unix" else ""])[0]
            database = int(text or 0)
        except ValueError:
            raise SettingsError("redis_url: bad port or database number") from None
        username = unquote(parts.username) if parts.username else None
        password = unquote(parts.password) if parts.password else None
        if parts.scheme == "unix" and parts.path:
            return cls(path=unquote(parts.path), username=username, password=password, database=database)
        if parts.scheme in ("redis", "rediss") and parts.hostname:
            return cls(
                parts.hostname, port, None, username, password, database=database, tls=parts.scheme == "rediss"
            )
        raise SettingsError("redis_url: give redis://host:port/0, rediss://… or unix:///path/redis.sock")

    def greeting(self) -> list[tuple[str, ...]]:
        """The commands that open a connection; the last one proves that the server answers."""
        commands: list[tuple[str, ...]] = []
        if self.password is not None:
            commands.append(("AUTH", *([self.username] if self.username else []), self.password))
        if self.database:
            commands.append(("SELECT", str(self.database)))
        commands.append(("PING",))
        return commands

    def ssl_context(self) -> ssl.SSLContext | None:
        """Verifying TLS, or None."""
        return ssl.create_default_context() if self.tls else None
