"""SQLite, the embedded database: WAL, full sync, and one writer at a time over all processes."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, event
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from gateway.errors import DatabaseUnavailable, SettingsError

_POOL_SIZE = 4
_MAX_BUSY_MS = 5000
_FIRST_POLL_S = 0.001
_LAST_POLL_S = 0.010
_BEGIN = "lamina_begin"


class FileTurn:
    """An exclusive turn among all processes, by a lock on a file; waiting for it blocks no thread.

    SQLite before 3.51.3 can lose a commit when one connection checkpoints the WAL while another commits. Commits
    and the checkpoints they start happen inside this turn, so no two connections of ours ever do that at once.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue = asyncio.Lock()
        self._fd = -1

    async def __aenter__(self) -> Self:
        await self._queue.acquire()
        try:
            self._fd = await self._lock_file()
        except BaseException:
            self._queue.release()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        os.close(self._fd)
        self._queue.release()

    async def _lock_file(self) -> int:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        pause_s = _FIRST_POLL_S
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, _LAST_POLL_S)
                else:
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise


class SqliteBackend:
    """One SQLite file, created with mode 0600 when absent; its folder must exist."""

    def __init__(self, path: Path, deadline_s: float) -> None:
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise DatabaseUnavailable(f"cannot open {path}: {error.strerror}") from error
        self._turn = FileTurn(path.with_name(path.name + ".lock"))
        # SQLite gives up waiting for a foreign lock before our deadline does, so the connection stays usable.
        self._busy_ms = min(_MAX_BUSY_MS, int(deadline_s * 750))
        self.engine = _make_engine(path, deadline_s, self._busy_ms)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """Opens a transaction that sees one moment."""
        async with self.engine.begin() as connection:
            yield connection

    @asynccontextmanager
    async def writing(self, *, alone: bool) -> AsyncIterator[AsyncConnection]:  # noqa: ARG002  (every writer is)
        """Opens a transaction that holds the write lock from its start and commits at its end."""
        async with self._turn, self.engine.connect() as connection:
            await connection.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"})
            async with connection.begin():
                yield connection

    @asynccontextmanager
    async def migrating(self, deadline_s: float) -> AsyncIterator[AsyncConnection]:  # noqa: ARG002
        """Opens the transaction of a migration, after switching the file to WAL (a lasting property of it)."""
        async with self._turn, self.engine.connect() as connection:
            raw = await connection.get_raw_connection()
            await raw.driver_connection.execute_fetchall("PRAGMA journal_mode=WAL")  # type: ignore[union-attr]
            await connection.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"})
            async with connection.begin():
                yield connection

    async def scrub(self, deadline_s: float) -> str:
        """Rebuilds the file without what was deleted and empties the log beside it; "" when that is done."""
        async with self._turn, self.engine.connect() as connection:
            raw = await connection.get_raw_connection()
            driver: Any = raw.driver_connection
            await driver.execute_fetchall(f"PRAGMA busy_timeout={int(deadline_s * 500)}")
            try:
                await driver.execute_fetchall("VACUUM")
                rows = await driver.execute_fetchall("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                await driver.execute_fetchall(f"PRAGMA busy_timeout={self._busy_ms}")
        return "" if not rows[0][0] else "the log could not be emptied: somebody reads the database; do it again"


def sqlite_path(url: URL) -> Path:
    """Returns the file a SQLite URL names.

    Raises:
        SettingsError: an in-memory database, which no second process could see, or options after the path.
    """
    if not url.database or url.database == ":memory:" or url.query:
        raise SettingsError("database_url: SQLite needs a file and no options, as in sqlite:///folder/lamina.db")
    return Path(url.database)


def _make_engine(path: Path, deadline_s: float, busy_ms: int) -> AsyncEngine:
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=str(path)),
        connect_args={"timeout": busy_ms / 1000},
        pool_size=_POOL_SIZE,
        max_overflow=0,
        pool_timeout=deadline_s,
        hide_parameters=True,
    )
    event.listen(engine.sync_engine, "connect", _prepare)
    event.listen(engine.sync_engine, "begin", _begin)
    return engine


def _prepare(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver's own BEGIN is deferred; ours is chosen in _begin
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA secure_delete=ON")  # what is deleted is overwritten
    cursor.close()


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(str(connection.get_execution_options().get(_BEGIN, "BEGIN")))
