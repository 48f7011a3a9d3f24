"""The database: opened from a URL, every call in a transaction of its own and under a deadline."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, Self, TypeVar

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from gateway.db.faults import FOREIGN_ERRORS, unavailable
from gateway.db.postgres import PostgresBackend
from gateway.db.schema import HEAD, move_schema
from gateway.db.sqlite import SqliteBackend, sqlite_path
from gateway.errors import DatabaseUnavailable, SettingsError
from gateway.tls import Tls, TlsFiles, TlsNames

T = TypeVar("T")
Work = Callable[[AsyncConnection], Awaitable[T]]
"""What is done inside one transaction; it may outlive its caller, so it touches nothing of theirs."""

DEADLINE_S = 2.0
MIGRATION_DEADLINE_S = 60.0
SCRUB_DEADLINE_S = 600.0
_CLOSING_S = 2.0
_TLS_NAMES = TlsNames("database_url: sslrootcert", "database_url: sslcert", "database_url: sslkey")
_NO_SYSTEM = "database_url: sslrootcert=system: give a path, such as /etc/ssl/certs/ca-certificates.crt"


class Backend(Protocol):
    """What sets one kind of database apart. Contract tests: tests/gateway/db."""

    @property
    def engine(self) -> AsyncEngine:
        """The pool and the dialect."""
        ...

    def reading(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Opens a transaction for reading."""
        ...

    def writing(self, *, alone: bool) -> AbstractAsyncContextManager[AsyncConnection]:
        """Opens a transaction for writing; `alone` keeps every other such one out, in all processes."""
        ...

    def migrating(self, deadline_s: float) -> AbstractAsyncContextManager[AsyncConnection]:
        """Opens the transaction of a migration, one at a time over all processes."""
        ...

    async def scrub(self, deadline_s: float) -> str:
        """Makes what was deleted unreadable in the files; says what is left to do, or nothing."""
        ...


class Database:
    """A pool of connections to one database; belongs to the event loop that first uses it.

    Each call runs in a task of its own: a caller that is cancelled or runs out of time leaves, and the task
    finishes or rolls back behind it, so no cancellation ever falls into the middle of a commit or of the pool.
    """

    def __init__(self, backend: Backend, deadline_s: float) -> None:
        self._backend = backend
        self._deadline_s = deadline_s
        self._running: set[asyncio.Task[object]] = set()
        self._closed = False

    @classmethod
    def open(cls, url: str, *, deadline_s: float = DEADLINE_S) -> Self:
        """Opens `sqlite:///path` (made with mode 0600 when absent) or `postgresql://…`; connects on first use.

        Args:
            url: names the database; may hold a password, which no message ever shows.
            deadline_s: longest time a call takes before it raises.

        Raises:
            SettingsError: the URL is of no kind that we know.
            DatabaseUnavailable: the SQLite file cannot be opened.
        """
        return cls(_make_backend(url, deadline_s), deadline_s)

    def __repr__(self) -> str:
        return f"Database({self.dialect})"

    @property
    def dialect(self) -> str:
        """The kind of database: `sqlite` or `postgresql`."""
        return self._backend.engine.dialect.name

    @property
    def checked_out(self) -> int:
        """Counts the connections in use."""
        return int(self._backend.engine.sync_engine.pool.checkedout())  # type: ignore[attr-defined]

    async def close(self) -> None:
        """Waits for the calls under way and closes every connection, for some seconds at most. Idempotent."""
        self._closed = True
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=self._deadline_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=_CLOSING_S)
        with contextlib.suppress(*FOREIGN_ERRORS):  # a server that is away has nothing left to be told
            async with asyncio.timeout(_CLOSING_S):
                await self._backend.engine.dispose()

    async def migrate(self, revision: str = HEAD) -> None:
        """Brings the schema up to date. Idempotent, all or nothing, and safe when several processes start at once.

        Raises:
            DatabaseUnavailable: the database does not answer, or another process migrates for over a minute.
            SettingsError: the database was migrated by a newer Lamina.
        """

        async def move() -> None:
            async with self._backend.migrating(MIGRATION_DEADLINE_S) as connection:
                await connection.run_sync(move_schema, revision)

        await self._within(move, MIGRATION_DEADLINE_S)

    async def scrub(self) -> str:
        """Makes what was deleted unreadable in the database's own files, as far as that can be done from here.

        Returns:
            What is left for the operator to do; empty when nothing is.

        Raises:
            DatabaseUnavailable: it takes over ten minutes, or somebody holds the database.
        """

        async def work() -> str:
            return await self._backend.scrub(SCRUB_DEADLINE_S)

        return await self._within(work, SCRUB_DEADLINE_S)

    async def read(self, work: Work[T]) -> T:
        """Runs `work` in a transaction that changes nothing.

        Raises:
            DatabaseUnavailable: no answer within the deadline.
        """

        async def transact() -> T:
            async with self._backend.reading() as connection:
                return await work(connection)

        return await self._within(transact, self._deadline_s)

    async def write(self, work: Work[T], *, alone: bool = False, deadline_s: float | None = None) -> T:
        """Runs `work` in a transaction and commits it; an error in `work` rolls back.

        Args:
            work: the statements.
            alone: whether no other such transaction may run meanwhile, in any process.
            deadline_s: for one that takes its time; else the database's own.

        Raises:
            DatabaseUnavailable: no answer within the deadline. The change may still have been made, when the
                answer to the commit was lost.
        """

        async def transact() -> T:
            async with self._backend.writing(alone=alone) as connection:
                return await work(connection)

        return await self._within(transact, deadline_s or self._deadline_s)

    async def _within(self, transact: Callable[[], Awaitable[T]], deadline_s: float) -> T:
        if self._closed:
            raise DatabaseUnavailable("the database is closed")
        task = asyncio.create_task(_bounded(transact, deadline_s))
        self._running.add(task)
        task.add_done_callback(self._forget)
        done, _ = await asyncio.wait({task}, timeout=deadline_s)
        if not done:
            raise DatabaseUnavailable(f"the database did not answer within {deadline_s:g} s")
        return task.result()

    def _forget(self, task: asyncio.Task[object]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may have left; without this the loop would complain


async def _bounded(transact: Callable[[], Awaitable[T]], deadline_s: float) -> T:
    try:
        async with asyncio.timeout(deadline_s):
            return await transact()
    except FOREIGN_ERRORS as error:
        raise unavailable(error) from error


def _make_backend(url: str, deadline_s: float) -> Backend:
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise SettingsError(_bad_url("it is not a URL")) from None
    kind = parsed.drivername.partition("+")[0]
    if kind == "sqlite":
        return SqliteBackend(sqlite_path(parsed), deadline_s)
    if kind in {"postgresql", "postgres"}:
        return PostgresBackend(_checked(parsed), deadline_s)
    raise SettingsError(_bad_url(f"{kind!r} is not supported"))


def _checked(url: URL) -> URL:
    if not url.database:
        raise SettingsError(_bad_url("it names no database"))
    ca, certificate, key = (_text(url, name) for name in ("sslrootcert", "sslcert", "sslkey"))
    if ca == "system":
        raise SettingsError(_NO_SYSTEM)
    files = TlsFiles(ca) if _text(url, "sslpassword") else TlsFiles(ca, certificate, key)
    if files != TlsFiles():
        Tls(files, _TLS_NAMES)  # the driver reads them again, and would not say which one is bad
    return url


def _text(url: URL, name: str) -> str | None:
    value = url.query.get(name)
    return value if isinstance(value, str) else None


def _bad_url(why: str) -> str:
    return f"database_url: {why}; use sqlite:///path/to/lamina.db or postgresql://user:password@host/database"
