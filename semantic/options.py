"""What the service can be told at its start."""

from dataclasses import dataclass
from pathlib import Path

from policies.encryption import MasterKeys, master_keys
from semantic.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the process.

    Attributes:
        socket: Unix socket to listen on; else `host` and `port`.
        database_url: where the gateway's rows are; None to embed and verify only.
        master_keys: what opens encrypted rows and seals snapshots; None where nothing is encrypted.
        home: folder of snapshots; None for none.
        model: folder or hub name of the embedder; None for the packaged one.
        embedder: kind of embedder, see `semantic.embedders.table`.
        verifier: folder of the verifier; None for the packaged one.
        threads: that compute in each model.
        token: what requests must carry; None only on a Unix socket.
        cache_mib: for vectors of texts asked for.
        questions_mib: for questions of stored rows.
        snapshot_s: seconds between snapshots.
        drain_s: seconds to finish open requests after SIGTERM.
    """

    socket: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8082
    database_url: str | None = None
    master_keys: MasterKeys | None = None
    home: Path | None = None
    model: str | None = None
    embedder: str = "auto"
    verifier: Path | None = None
    threads: int = 1
    token: str | None = None
    cache_mib: int = 64
    questions_mib: int = 128
    snapshot_s: float = 300.0
    drain_s: float = 5.0

    def checked(self) -> "Options":
        """The options.

        Raises:
            ConfigError: they cannot be used together.
        """
        if self.socket is None and not self.token:
            raise ConfigError("a TCP port needs --token-file; without a token only --socket is served")
        if self.threads < 1 or self.cache_mib < 0 or self.questions_mib < 0 or self.snapshot_s <= 0:
            raise ConfigError("--threads, --cache-mib, --questions-mib and --snapshot-seconds must be positive")
        return self


def read_token(file: Path) -> str:
    """The secret in a file, without white space around it.

    Raises:
        ConfigError: the file cannot be read, or holds nothing.
    """
    try:
        token = file.read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {file}: {error}") from error
    if not token:
        raise ConfigError(f"{file} is empty")
    return token


def read_master_keys(file: Path) -> MasterKeys:
    """The master keys in a file, the one in use first.

    Raises:
        ConfigError: the file cannot be read, or holds none.
    """
    try:
        return master_keys(read_token(file))
    except ValueError as error:
        raise ConfigError(f"{file}: {error}") from None
