"""A tenant's semantic rows in pages, by number, for whoever looks through all of them."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db.database import Database
from gateway.db.records import SemanticRow
from gateway.db.tables import SEMANTIC_ROWS

_ROWS = SEMANTIC_ROWS.c
_SHOWN = (
    *(_ROWS.row, _ROWS.tenant_id, _ROWS.family, _ROWS.partition, _ROWS.question),
    *(_ROWS.key, _ROWS.route, _ROWS.sealed, _ROWS.state),
)


class RowPages:
    """Reads rows after a number, in order; what is written meanwhile has a higher number or none."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def after(self, tenant_id: str, row: int, limit: int) -> list[SemanticRow]:
        """At most `limit` rows of the tenant above `row`, ascending.

        Raises:
            DatabaseUnavailable: see `Database.read`.
        """
        query = (
            select(*_SHOWN).where(_ROWS.tenant_id == tenant_id, _ROWS.row > row).order_by(_ROWS.row).limit(limit)
        )

        async def work(connection: AsyncConnection) -> list[SemanticRow]:
            return [SemanticRow(*found) for found in await connection.execute(query)]

        return await self._database.read(work)

    async def keys(self, tenant_id: str, rows: Sequence[int]) -> dict[int, bytes]:
        """The exact keys of the tenant's rows among these; those that are gone are left out.

        Raises:
            DatabaseUnavailable: see `Database.read`.
        """
        query = select(_ROWS.row, _ROWS.key).where(_ROWS.tenant_id == tenant_id)

        async def work(connection: AsyncConnection) -> dict[int, bytes]:
            found: dict[int, bytes] = {}
            for start in range(0, len(rows), _AT_ONCE):
                some = query.where(_ROWS.row.in_(rows[start : start + _AT_ONCE]))
                found.update((row, key) for row, key in await connection.execute(some))
            return found

        return await self._database.read(work)


_AT_ONCE = 5000
