"""Brings a database up to date and makes sure that somebody can sign in: at each start, or as a job of its own."""

import asyncio
import time

from gateway.db import Database, bootstrap
from gateway.errors import DatabaseUnavailable
from gateway.settings import Settings
from gateway.supervisor.errors import StartError

_AGAIN_AFTER_S = 0.5


async def first_key(settings: Settings, within_s: float = 0.0) -> str | None:
    """Moves the tables to this release's; returns the first key when one was made, and None ever after.

    Args:
        settings: with the database's URL filled in.
        within_s: how long a database that does not answer yet is waited for.

    Raises:
        StartError: it does not answer.
        SettingsError: it was moved on by a newer release.
    """
    due_s = time.monotonic() + within_s
    while True:
        try:
            return await _once(settings)
        except DatabaseUnavailable as error:
            if time.monotonic() >= due_s:
                raise StartError(f"the database does not answer: {error}") from None
        await asyncio.sleep(_AGAIN_AFTER_S)


async def _once(settings: Settings) -> str | None:
    assert settings.database_url is not None  # noqa: S101  (with_home_services filled it)
    preset = settings.bootstrap_key.get_secret_value() if settings.bootstrap_key else None
    database = Database.open(
        settings.database_url.get_secret_value(), deadline_s=settings.database_deadline_ms / 1000
    )
    try:
        await database.migrate()
        return await bootstrap(database, preset, time.time())
    finally:
        await database.close()
