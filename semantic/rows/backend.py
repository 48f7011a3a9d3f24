"""The two kinds of database: how each is opened, and how its writers take turns."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import asyncpg
from sqlalchemy import Connection, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from semantic.errors import ConfigError, StoreError

_POOL_SIZE = 3
_BEGIN = "lamina_begin"
_POLL_S = 0.005


class Backend(Protocol):
    """What sets one kind of database apart. Contract tests: tests/semantic/rows."""

    engine: AsyncEngine

    def writing(self) -> Any:
        """Opens a transaction that commits at its end."""
        ...

    async def close(self) -> None:
        """Closes every connection."""
        ...


class SqliteBackend:
    """A SQLite file that the gateway has made; opened, never created.

    Writers of all processes take turns by the lock file beside it, as the gateway's do, so that no checkpoint of
    one falls into the commit of another; the last connection's closing checkpoints too.
    """

    def __init__(self, path: Path, deadline_s: float) -> None:
        self._lock_file = path.with_name(path.name + ".lock")
        self._deadline_s = deadline_s
        self.engine = create_async_engine(
            URL.create("sqlite+aiosqlite", database=f"file:{path}", query={"mode": "rw", "uri": "true"}),
            connect_args={"timeout": deadline_s / 2},
            pool_size=_POOL_SIZE,
            max_overflow=0,
            pool_timeout=deadline_s,
            hide_parameters=True,
        )
        event.listen(self.engine.sync_engine, "connect", _prepare)
        event.listen(self.engine.sync_engine, "begin", _begin)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """Opens a transaction that holds the write lock from its start."""
        async with self._turn(), self.engine.connect() as connection:
            await connection.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"})
            async with connection.begin():
                yield connection

    async def close(self) -> None:
        """Closes every connection, in a turn of its own."""
        async with self._turn():
            await self.engine.dispose()

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        descriptor = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            async with asyncio.timeout(self._deadline_s):
                while not _try_lock(descriptor):  # noqa: ASYNC110  (another process holds it)
                    await asyncio.sleep(_POLL_S)
            yield
        finally:
            os.close(descriptor)


class PostgresBackend:
    """A PostgreSQL database, named by a libpq URL."""

    def __init__(self, url: URL, deadline_s: float) -> None:
        limit_ms = int(deadline_s * 1000)
        settings = {"statement_timeout": str(limit_ms), "lock_timeout": str(limit_ms), "jit": "off"}
        dsn = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self.engine = create_async_engine(
            "postgresql+asyncpg://",
            # asyncpg reads the URL itself, so that it means what it means to libpq
            async_creator=partial(asyncpg.connect, dsn, timeout=deadline_s, server_settings=settings),
            pool_pre_ping=True,
            pool_size=_POOL_SIZE,
            max_overflow=0,
            pool_timeout=deadline_s,
            hide_parameters=True,
        )

    def writing(self) -> Any:
        """Opens a transaction."""
        return self.engine.begin()

    async def close(self) -> None:
        """Closes every connection."""
        await self.engine.dispose()


def open_backend(url: str, deadline_s: float) -> Backend:
    """Opens `sqlite:///path` or `postgresql://…`; connects on first use.

    Raises:
        ConfigError: the URL is of neither kind.
        StoreError: there is no such SQLite file.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ConfigError("--database-url: not a URL; use sqlite:///path or postgresql://…") from None
    kind = parsed.drivername.partition("+")[0]
    if kind == "sqlite" and parsed.database and not parsed.query:
        if not Path(parsed.database).is_file():
            raise StoreError(f"there is no database {parsed.database}; the gateway makes it")
        return SqliteBackend(Path(parsed.database).absolute(), deadline_s)
    if kind in {"postgresql", "postgres"} and parsed.database:
        return PostgresBackend(parsed, deadline_s)
    raise ConfigError(
        "--database-url: use sqlite:///path/to/lamina.db or postgresql://user:password@host/database"
    )


def identity_of(url: str) -> str:
    """What tells one database from another, without a password."""
    parsed = make_url(url)
    place = (
        str(Path(parsed.database or "").absolute()) if parsed.drivername.startswith("sqlite") else parsed.database
    )
    return repr((parsed.drivername.partition("+")[0], parsed.host, parsed.port, place))


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _prepare(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver's own BEGIN is deferred; ours is chosen in _begin
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA secure_delete=ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(str(connection.get_execution_options().get(_BEGIN, "BEGIN")))
