"""Both databases, with empty tables and one tenant."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.semantic.rows_stand import Rows, migrated
from tests.servers.postgres import PostgresServer


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of each kind in turn."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/lamina.db"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.database() as made:
        yield made


@pytest.fixture
async def rows(url: str) -> AsyncIterator[Rows]:
    """The tables, as the gateway writes them."""
    async with migrated(url) as made:
        yield made
        await asyncio.sleep(0)
