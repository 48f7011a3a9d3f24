"""Where Redis is and how to introduce ourselves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

from gateway.errors import SettingsError
from gateway.tls import Tls, TlsFiles, TlsNames

_DEFAULT_PORT = 6379
_FILES = {"ca": "ssl_ca_certs", "certificate": "ssl_certfile", "key": "ssl_keyfile"}
_NAMES = TlsNames(*(f"redis_url: {name}" for name in _FILES.values()))
_ALWAYS = {"ssl_cert_reqs": ("required", "cert_required"), "ssl_check_hostname": ("true", "yes", "1")}
"""Parameters that redis-py knows to switch checks off, and the values that leave them on."""


@dataclass(frozen=True, slots=True)
class RedisTarget:
    """A parsed Redis URL: `redis://`, `rediss://` or `unix://`; the password never shows in repr.

    The files of `rediss://` are named as redis-py names them: `ssl_ca_certs`, `ssl_certfile`, `ssl_keyfile`.

    Attributes:
        path: Unix socket, or None.
        tls: files of TLS, or None for a plain connection.
    """

    host: str = "localhost"
    port: int = _DEFAULT_PORT
    path: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    database: int = 0
    tls: TlsFiles | None = None

    @classmethod
    def parse(cls, url: str) -> "RedisTarget":
        """Reads a URL.

        Raises:
            SettingsError: it is not one; the message does not repeat it.
        """
        try:
            parts = urlsplit(url)
            port = parts.port or _DEFAULT_PORT
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            database = int(query.get("db", parts.path.strip("/") if parts.scheme != "unix" else "") or 0)
        except ValueError:
            raise SettingsError("redis_url: bad host, port or database number") from None
        tls = _tls_files(query, encrypted=parts.scheme == "rediss")
        username = unquote(parts.username) if parts.username else None
        password = unquote(parts.password) if parts.password else None
        if parts.scheme == "unix" and parts.path:
            return cls(path=unquote(parts.path), username=username, password=password, database=database)
        if parts.scheme in ("redis", "rediss") and parts.hostname:
            return cls(parts.hostname, port, None, username, password, database=database, tls=tls)
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

    def open_tls(self) -> Tls | None:
        """Verifying TLS, or None for a plain connection; reads the files.

        Raises:
            SettingsError: one of them is not what it should be.
        """
        return None if self.tls is None else Tls(self.tls, _NAMES)


def _tls_files(query: Mapping[str, str], *, encrypted: bool) -> TlsFiles | None:
    for name, value in query.items():
        if not name.startswith("ssl_"):
            continue
        if not encrypted:
            raise SettingsError(f"redis_url: {name} is for rediss://; without it nothing is encrypted")
        if name in _ALWAYS and value.lower() not in _ALWAYS[name]:
            cure = "name the CA that signed it by ssl_ca_certs=/path/ca.pem"
            raise SettingsError(
                f"redis_url: {name}={value[:20]}: the server's certificate is always checked; {cure}"
            )
        if name not in _ALWAYS and name not in _FILES.values():
            raise SettingsError(f"redis_url: unknown {name[:40]}; known are {', '.join(_FILES.values())}")
    return TlsFiles(**{part: query.get(name) for part, name in _FILES.items()}) if encrypted else None
