"""Rows whose question was asked before, to the letter; for explanations."""

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db.database import Database
from gateway.db.tables import SEMANTIC_ROWS

_ROWS = SEMANTIC_ROWS.c


class AskedBefore:
    """Finds rows by what was asked."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def rows(self, tenant_id: str, asked: bytes, limit: int) -> list[int]:
        """Numbers of the tenant's rows with this last turn, given by its digest, the newest first.

        Raises:
            DatabaseUnavailable: see `Database.read`.
        """
        query = select(_ROWS.row).where(_ROWS.tenant_id == tenant_id, _ROWS.asked == asked)
        query = query.order_by(_ROWS.created_at.desc()).limit(limit)

        async def work(connection: AsyncConnection) -> list[int]:
            return list((await connection.execute(query)).scalars())

        return await self._database.read(work)
