"""PostgreSQL, the database of a set with several machines: durable commits, time limits on both sides."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import asyncpg
from sqlalchemy import text
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

_POOL_SIZE = 5
_IDLE_FACTOR = 5
_ALONE = int.from_bytes(b"lamina", "big")


class PostgresBackend:
    """One PostgreSQL database, named by a libpq URL (`host=`, `sslmode=` and the like are understood)."""

    def __init__(self, url: URL, deadline_s: float) -> None:
        self.engine = _make_engine(url, deadline_s)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """Opens a transaction; each statement in it sees one moment (read committed)."""
        async with self.engine.begin() as connection:
            yield connection

    @asynccontextmanager
    async def writing(self, *, alone: bool) -> AsyncIterator[AsyncConnection]:
        """Opens a transaction that commits at its end; `alone` keeps others of its kind out."""
        async with self.engine.begin() as connection:
            if alone:
                await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ALONE})
            yield connection

    @asynccontextmanager
    async def migrating(self, deadline_s: float) -> AsyncIterator[AsyncConnection]:
        """Opens the transaction of a migration, one at a time, with a time limit of its own."""
        async with self.engine.begin() as connection:
            limit_ms = int(deadline_s * 1000)
            await connection.execute(text(f"SET LOCAL statement_timeout = {limit_ms}"))
            await connection.execute(text(f"SET LOCAL lock_timeout = {limit_ms}"))
            await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ALONE})
            yield connection

    async def scrub(self, deadline_s: float) -> str:
        """Frees the space of removed rows; only the server's operator can have it overwritten."""
        async with self.engine.connect() as opened:
            connection = await opened.execution_options(isolation_level="AUTOCOMMIT")
            await connection.execute(text(f"SET statement_timeout = {int(deadline_s * 1000)}"))
            try:
                for table in _ERASED_FROM:
                    await connection.execute(text(f"VACUUM {table}"))
            finally:
                await connection.execute(text("RESET statement_timeout"))
        return _LEFT_TO_DO


_ERASED_FROM = (
    *("semantic_rows", "semantic_vectors", "data_keys", "api_keys", "purge_log", "audit"),
    *("tenants", "versions", "budget_marks", "budget_state", "overrides"),
)
_LEFT_TO_DO = (
    "VACUUM freed the space of removed rows; PostgreSQL writes over it in time. "
    f"`VACUUM FULL {', '.join(_ERASED_FROM)}` does so now; WAL segments and backups go when your retention says"
)


def _make_engine(url: URL, deadline_s: float) -> AsyncEngine:
    limit_ms = int(deadline_s * 1000)
    server_settings = {
        "statement_timeout": str(limit_ms),
        "lock_timeout": str(limit_ms),
        "idle_in_transaction_session_timeout": str(_IDLE_FACTOR * limit_ms),
        "synchronous_commit": "on",
        "jit": "off",
    }
    dsn = url.set(drivername="postgresql").render_as_string(hide_password=False)
    return create_async_engine(
        "postgresql+asyncpg://",
        # asyncpg reads the URL itself, so that it means what it means to libpq
        async_creator=partial(asyncpg.connect, dsn, timeout=deadline_s, server_settings=server_settings),
        pool_pre_ping=True,
        pool_size=_POOL_SIZE,
        max_overflow=_POOL_SIZE,
        pool_timeout=deadline_s,
        hide_parameters=True,
    )
