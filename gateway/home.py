"""Where one embedded set keeps what it owns; names only, no I/O."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from pydantic import SecretStr

from gateway.settings import Settings

_LONGEST_SOCKET_PATH = 100
"""Linux takes 107 bytes (unix(7), sun_path); Redis appends a suffix while it starts."""


@dataclass(frozen=True, slots=True)
class Home:
    """The paths inside a home, which must be absolute.

    Attributes:
        root: mode 0700, owned by the user that runs the set.
    """

    root: Path

    @property
    def run(self) -> Path:
        """What only a running set needs."""
        return self.root / "run"

    @property
    def sockets(self) -> Path:
        """The run folder, or a short link to it where its own path is too long for a Unix socket."""
        if len(os.fsencode(self.run / "semantic.sock")) <= _LONGEST_SOCKET_PATH:
            return self.run
        return self.short_folder / "run"

    @property
    def short_folder(self) -> Path:
        """A folder with a short name that may hold the link."""
        name = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:12]
        return Path(f"/tmp/lamina-{os.getuid()}-{name}")  # noqa: S108  (its owner and mode are checked)

    @property
    def redis_socket(self) -> Path:
        """Where the embedded Redis listens."""
        return self.sockets / "redis.sock"

    @property
    def engine_socket(self) -> Path:
        """Where the embedded engine listens."""
        return self.sockets / "engine.sock"

    @property
    def semantic_socket(self) -> Path:
        """Where the embedded semantic service listens."""
        return self.sockets / "semantic.sock"

    @property
    def semantic_database(self) -> Path:
        """The database's URL for the semantic service, mode 0600: it may hold a password."""
        return self.run / "semantic.database"

    @property
    def semantic(self) -> Path:
        """Where the embedded semantic service keeps what it can make again: snapshots of its index."""
        return self.root / "semantic"

    @property
    def metrics(self) -> Path:
        """Where the workers share their Prometheus values."""
        return self.run / "metrics"

    @property
    def resolved_settings(self) -> Path:
        """Settings as the workers read them, mode 0600."""
        return self.run / "settings.json"

    @property
    def lock(self) -> Path:
        """Held by the running set; its text is the supervisor's process id."""
        return self.root / "lock"

    @property
    def secret(self) -> Path:
        """The master secret made at the first start, mode 0600."""
        return self.root / "secret"

    @property
    def master_key(self) -> Path:
        """The master keys of the encryption, the one in use first, mode 0600."""
        return self.root / "master_key"

    @property
    def semantic_keys(self) -> Path:
        """The same for the semantic service, mode 0600."""
        return self.run / "semantic.keys"

    @property
    def admin_key(self) -> Path:
        """The administrator's key made at the first start, mode 0600."""
        return self.root / "admin_key"

    @property
    def database(self) -> Path:
        """The embedded SQLite database."""
        return self.root / "lamina.db"


def with_home_services(settings: Settings) -> Settings:
    """The settings with an absolute home and the embedded services' addresses where no others are given."""
    home = Home(settings.home.expanduser().absolute())
    redis_url = settings.redis_url or SecretStr(f"unix://{quote(str(home.redis_socket))}")
    database_url = settings.database_url or SecretStr(f"sqlite:///{home.database}")
    engine_url = settings.engine_url
    if engine_url is None and settings.engine.enabled:
        engine_url = f"unix://{quote(str(home.engine_socket))}"
    semantic_url = settings.semantic_url
    if semantic_url is None and settings.semantic.enabled and settings.compares_meaning:
        semantic_url = f"unix://{quote(str(home.semantic_socket))}"
    return settings.model_copy(
        update={
            "home": home.root,
            "redis_url": redis_url,
            "database_url": database_url,
            "engine_url": engine_url,
            "semantic_url": semantic_url,
        }
    )
