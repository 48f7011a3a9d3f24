"""The door for foreign errors: what a driver raises becomes `DatabaseUnavailable` with one line that says why."""

import sqlite3

import asyncpg
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from gateway.errors import DatabaseUnavailable
from gateway.tls import tls_advice, tls_reason

FOREIGN_ERRORS: tuple[type[Exception], ...] = (
    DBAPIError,
    DisconnectionError,
    PoolTimeout,
    sqlite3.Error,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)
"""What a database call may raise without a bug of ours; OSError holds TimeoutError and refused connections."""


def unavailable(error: Exception) -> DatabaseUnavailable:
    """Makes our error from a foreign one: its kind and first line, never a parameter or a password."""
    root: BaseException = error
    if isinstance(error, DBAPIError) and error.orig is not None:
        root = error.orig.__cause__ or error.orig
    if isinstance(root, TimeoutError):
        return DatabaseUnavailable("the database did not answer in time")
    advice = tls_advice(tls_reason(root) or "", "sslrootcert in database_url")
    if advice:
        return DatabaseUnavailable(f"the database did not answer: {advice}")
    text = root.strerror if isinstance(root, OSError) and root.strerror else str(root)
    first_line = text.partition("\n")[0][:200]
    return DatabaseUnavailable(f"the database did not answer: {first_line} ({type(root).__name__})")
