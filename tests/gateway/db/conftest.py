"""Both databases, real ones: each test gets an empty one of its own."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway.db import Database, TenantRecord, TenantRepository
from tests.servers.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running PostgreSQL; a test that kills or freezes it brings it back."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.stop()


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


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A migrated database, closed after the test, with every connection back in its pool."""
    opened = Database.open(database_url)
    await opened.migrate()
    yield opened
    assert opened.checked_out == 0
    await opened.close()


@pytest.fixture
async def tenant(database: Database) -> TenantRecord:
    """A tenant named acme, without keys."""
    return await TenantRepository(database).create("acme", "test", 1000.0)
