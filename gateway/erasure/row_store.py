"""Rows of the semantic layer with their vectors, and the index that is made of them."""

from collections.abc import AsyncIterator

from gateway.db import SemanticRow, SemanticRows
from gateway.db.erasing import ErasingRepository
from gateway.erasure.contract import Scope
from gateway.errors import SemanticUnavailable
from gateway.layers.entry import EntryError, Sealer
from gateway.semantic_link import SemanticLink
from policies.erasure import StoreProof
from policies.nomination import Settle

_PAGE = 200
_SETTLE_S = 60.0


class RowStore:
    """Questions, sealed answers and vectors in SQL.

    Attributes:
        removed: numbers of the rows that were removed.
    """

    name = "semantic_rows"

    def __init__(self, reading: ErasingRepository, rows: SemanticRows, sealer: Sealer) -> None:
        self._reading = reading
        self._rows = rows
        self._sealer = sealer
        self.removed: list[int] = []

    async def erase(self, scope: Scope) -> StoreProof:
        """See Store."""
        looked_at = found = removed = 0
        async for page in self._pages(scope):
            looked_at += len(page)
            doomed = [row.row for row in page if self._goes(scope, row)]
            found += len(doomed)
            if doomed:
                removed += await self._rows.remove(scope.tenant_id, doomed)
                self.removed += doomed
        await self._reading.drop_stray_vectors()
        left = await self._reading.vectors_left(self.removed[-_PAGE:])
        async for page in self._pages(scope):
            left += sum(self._goes(scope, row) for row in page)
        return StoreProof(self.name, looked_at, found, removed, left)

    async def _pages(self, scope: Scope) -> AsyncIterator[list[SemanticRow]]:
        after = -1
        while True:
            page = await self._reading.rows_after(scope.tenant_id, after, _PAGE)
            if page:
                yield page
            if len(page) < _PAGE:
                return
            after = page[-1].row

    def _goes(self, scope: Scope, row: SemanticRow) -> bool:
        if scope.everything:
            return True
        try:
            return scope.takes(self._sealer.open(row.sealed, row.tenant_id, row.key))
        except EntryError:
            return True


class IndexStore:
    """The index and its snapshot, in the service that this gateway asks; others follow the rows by themselves."""

    name = "index"

    def __init__(self, link: SemanticLink | None, reading: ErasingRepository, rows: RowStore) -> None:
        self._link = link
        self._reading = reading
        self._rows = rows

    async def erase(self, scope: Scope) -> StoreProof:
        """See Store."""
        del scope
        if self._link is None:
            return StoreProof(self.name, 0, 0, 0, 0, "no semantic service is used")
        doomed = tuple(self._rows.removed)
        change = await self._reading.last_change()
        try:
            settled = await self._link.settle(Settle(change, doomed), _SETTLE_S)
        except SemanticUnavailable as error:
            note = f"the semantic service did not answer ({error.reason}): it drops the rows when it is back"
            return StoreProof(self.name, 0, 0, 0, None, note)
        note = (
            "" if settled.snapshot else "the snapshot could not be written anew: remove it from the service's home"
        )
        behind = settled.reached < change or not settled.snapshot
        left = settled.held if settled.held or not behind else None
        return StoreProof(self.name, settled.rows, len(doomed), len(doomed) - settled.held, left, note)
