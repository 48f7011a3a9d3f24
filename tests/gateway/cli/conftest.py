"""The command line on a home of the test's own, called in this process or through its seam."""

import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.cli.administration import Office
from gateway.errors import StoreUnavailable
from tests.servers.sqlite import open_migrated


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    status: int
    out: str
    err: str


Lamina = Callable[..., Ran]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that does not exist yet, with no settings around it."""
    for name in ("REDIS_URL", "DATABASE_URL", "ENGINE_URL", "LAMINA_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAMINA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LAMINA_DATABASE_DEADLINE_MS", "20000")  # a busy disk is no failure of a command
    return tmp_path / "home"


@pytest.fixture
def lamina(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Lamina:
    """Runs `lamina` with arguments, as its program does."""

    def run(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["lamina", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return Ran(int(ended.value.code or 0), said.out, said.err)

    return run


@dataclass
class ToldAnnouncer:
    """Keeps what it was told; says that Redis is away while `away`."""

    told: list[tuple[str, int, int]] = field(default_factory=list)
    away: bool = False

    async def announce(self, tenant_id: str, auth_seq: int, purge_seq: int) -> tuple[int, int]:
        """Notes the sequences, or fails as the real one does."""
        if self.away:
            raise StoreUnavailable("no answer")
        self.told.append((tenant_id, auth_seq, purge_seq))
        return auth_seq, purge_seq


@pytest.fixture
def announcer() -> ToldAnnouncer:
    return ToldAnnouncer()


@pytest.fixture
async def office(tmp_path: Path, announcer: ToldAnnouncer) -> AsyncIterator[Office]:
    """The seam below the commands: real records, a fake announcer."""
    database = await open_migrated(f"sqlite:///{tmp_path}/lamina.db")
    yield Office(database, announcer, "cli:test", 1000.0)
    await database.close()
