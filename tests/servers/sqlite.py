"""Migrated databases at the cost of a copy."""

import asyncio
import functools
import tempfile
from pathlib import Path

from gateway.db import Database

PATIENCE_S = 20.0
"""Of a database: no test fails because a disk was busy for two seconds."""
_SQLITE = "sqlite:///"


async def open_migrated(url: str, deadline_s: float = PATIENCE_S) -> Database:
    """A database with every table; a new SQLite file is a copy of one that this process migrated before.

    The migrations themselves are proven in tests/gateway/db.
    """
    if url.startswith(_SQLITE):
        await asyncio.to_thread(_copy_to, Path(url.removeprefix(_SQLITE)))
    database = Database.open(url, deadline_s=deadline_s)
    await database.migrate()
    return database


def _copy_to(path: Path) -> None:
    if not path.exists():
        path.write_bytes(_empty())


@functools.cache
def _empty() -> bytes:
    async def made(path: Path) -> None:
        database = Database.open(f"{_SQLITE}{path}", deadline_s=PATIENCE_S)
        await database.migrate()
        await database.close()

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lamina.db"
        asyncio.run(made(path))
        return path.read_bytes()
