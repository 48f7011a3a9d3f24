"""Tenants' records, the database's own files, and what the engine keeps of prompts."""

from collections.abc import Iterable

from gateway.db import Database, PurgeRepository
from gateway.db.erasing import ErasingRepository
from gateway.erasure.contract import Scope
from gateway.errors import DatabaseUnavailable, UpstreamError
from gateway.layers.salts import Salts
from gateway.providers.purge import purge_salts
from policies.erasure import StoreProof
from policies.purges import Purge

_MOST_SALTS = 10_000


class RecordStore:
    """Keys, limits, labels of the error budget, the texts of purge log and audit, and the tenant's name."""

    name = "records"

    def __init__(self, reading: ErasingRepository) -> None:
        self._reading = reading

    async def erase(self, scope: Scope) -> StoreProof:
        """See Store."""
        if scope.user:
            said = (scope.tenant_id, scope.user, f"#{scope.person}")
            done, left = await self._reading.blank_user(*said), await self._reading.user_left(*said)
        else:
            done = await self._reading.blank_tenant(scope.tenant_id)
            left = await self._reading.tenant_left(scope.tenant_id)
        return StoreProof(self.name, done.looked_at, done.found, done.found, left)


class DatabaseFiles:
    """The database's files, rebuilt without what was removed, as far as that can be done from here."""

    name = "database_files"

    def __init__(self, database: Database) -> None:
        self._database = database

    async def erase(self, scope: Scope) -> StoreProof:
        """See Store."""
        del scope
        try:
            note = await self._database.scrub()
        except DatabaseUnavailable as error:
            return StoreProof(self.name, 1, 0, 0, None, f"the files could not be rebuilt: {error}")
        clean = not note or self._database.dialect == "postgresql"
        return StoreProof(self.name, 1, 1, int(clean), 0 if clean else None, note)


class EngineStore:
    """The embedded engine's blocks under every salt that the tenant has had; they are in memory only.

    Args:
        engine_url: None where no engine is used.
        salts: of tenants.
        purges: says which salts there have been.
    """

    name = "engine"

    def __init__(self, engine_url: str | None, salts: Salts, purges: PurgeRepository) -> None:
        self._engine_url = engine_url
        self._salts = salts
        self._purges = purges

    async def erase(self, scope: Scope) -> StoreProof:
        """See Store."""
        if self._engine_url is None:
            note = "no engine is used; other model servers were left with salts that nobody sends any more"
            return StoreProof(self.name, 0, 0, 0, 0, note)
        epochs = await self._epochs(scope.tenant_id)
        salts = [self._salts.of(scope.tenant_id, epoch) for epoch in epochs[-_MOST_SALTS:]]
        try:
            removed = await purge_salts(self._engine_url, salts)
            left = await purge_salts(self._engine_url, salts)
        except UpstreamError as error:
            note = (
                f"the engine did not say that it forgot ({error.status}); its blocks are under a salt nobody sends"
            )
            return StoreProof(self.name, len(salts), 0, 0, None, note)
        return StoreProof(self.name, len(salts), removed, removed, left)

    async def _epochs(self, tenant_id: str) -> list[int]:
        """Every prefix epoch but the present one; see PurgeIndex."""
        rows = await self._purges.since(tenant_id, 0)
        return _past_epochs(Purge(row.seq, row.kind, row.value, row.mode) for row in rows)


def _past_epochs(purges: Iterable[Purge]) -> list[int]:
    return [0, *(purge.seq for purge in purges if purge.of_persons)][:-1]
