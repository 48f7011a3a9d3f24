"""Both databases, real ones: each test gets one of its own, empty or with empty tables."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway.db import Database, TenantRecord, TenantRepository
from gateway.db.tables import METADATA
from tests.servers.postgres import PostgresServer
from tests.servers.sqlite import PATIENCE_S

FORGET = f"""
SET session_replication_role = replica;  -- lets the owner pass the triggers that keep history
TRUNCATE {", ".join(sorted(set(METADATA.tables) - {"counters"}))} RESTART IDENTITY;
"""


def migrate(url: str) -> None:
    """Migrates a database from a test that has no loop."""

    async def work() -> None:
        database = Database.open(url, deadline_s=PATIENCE_S)
        await database.migrate()
        await database.close()

    with asyncio.Runner() as runner:
        runner.run(work())


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """An empty PostgreSQL database of this test's own."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind in turn."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/lamina.db"


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with empty tables, to be copied."""
    path = tmp_path_factory.mktemp("migrated") / "lamina.db"
    migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: PostgresServer) -> Iterator[str]:
    """A PostgreSQL database with tables, whose rows each test forgets."""
    with postgres_server.database() as url:
        migrate(url)
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def records_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database with empty tables, of each kind in turn."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("migrated_sqlite"), tmp_path / "lamina.db")
        yield f"sqlite:///{tmp_path}/lamina.db"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url: str = request.getfixturevalue("migrated_postgres")
    yield url
    server.execute(FORGET, url)


@pytest.fixture
async def database(records_url: str) -> AsyncIterator[Database]:
    """Empty tables, closed after the test, with every connection back in its pool."""
    opened = Database.open(records_url, deadline_s=PATIENCE_S)
    yield opened
    assert opened.checked_out == 0
    await opened.close()


@pytest.fixture
async def tenant(database: Database) -> TenantRecord:
    """A tenant named acme, without keys."""
    return await TenantRepository(database).create("acme", "test", 1000.0)
