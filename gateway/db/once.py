"""Idempotency keys and what came of the changes under them, for a day."""

from dataclasses import dataclass, field

from sqlalchemy import ColumnElement, and_, delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db.database import Database
from gateway.db.errors import RecordError
from gateway.db.tables import ADMIN_ONCE

KEPT_S = 24 * 3600.0

_ONCE = ADMIN_ONCE.c


@dataclass(frozen=True, slots=True)
class OnceName:
    """One caller's key; of the key itself only the SHA-256."""

    actor: str
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class OnceRow:
    """What is known of a change.

    Attributes:
        request: SHA-256 of what was asked.
        at: when it was first asked, seconds since the epoch.
        status: of the answer; None while it is not known.
        sealed: the encrypted answer; empty while it is not known.
    """

    request: bytes
    at: float
    status: int | None
    sealed: bytes = field(repr=False)


class OnceRepository:
    """Keys by caller; a claim is won by one of any number that ask at once, in all processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, name: OnceName, request: bytes, now_s: float) -> OnceRow | None:
        """Claims a key, for None, or returns what it was claimed for before.

        Raises:
            DatabaseUnavailable: see `Database.write`.
            RecordError: conflict: the claim before this one was given up at this very moment.
        """
        row = {"actor": name.actor, "key": name.key, "request": request, "at": now_s}

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(delete(ADMIN_ONCE).where(_ONCE.at < now_s - KEPT_S))
            try:
                await connection.execute(insert(ADMIN_ONCE).values(row))
            except IntegrityError:
                raise RecordError("conflict", "this key is in use") from None

        try:
            await self._database.write(work)
        except RecordError:
            found = await self._find(name)
            if found is None:
                raise
            return found
        return None

    async def finish(self, name: OnceName, status: int, sealed: bytes) -> None:
        """Keeps what came of a claimed change."""
        done = update(ADMIN_ONCE).where(_is(name)).values(status=status, sealed=sealed)

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(done)

        await self._database.write(work)

    async def release(self, name: OnceName, at: float | None) -> None:
        """Gives a claim up, if its change has no outcome; with `at`, only the claim of that time."""
        gone = delete(ADMIN_ONCE).where(_is(name), _ONCE.status.is_(None))
        if at is not None:
            gone = gone.where(_ONCE.at == at)

        async def work(connection: AsyncConnection) -> None:
            await connection.execute(gone)

        await self._database.write(work)

    async def _find(self, name: OnceName) -> OnceRow | None:
        query = select(_ONCE.request, _ONCE.at, _ONCE.status, _ONCE.sealed).where(_is(name))

        async def work(connection: AsyncConnection) -> OnceRow | None:
            row = (await connection.execute(query)).one_or_none()
            return None if row is None else OnceRow(row.request, row.at, row.status, row.sealed or b"")

        return await self._database.read(work)


def _is(name: OnceName) -> ColumnElement[bool]:
    return and_(_ONCE.actor == name.actor, _ONCE.key == name.key)
