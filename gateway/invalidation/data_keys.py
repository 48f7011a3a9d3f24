"""Keeps a worker's keyring as the database says, beside the tenant's credentials; makes a tenant's first key."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Protocol
from weakref import WeakValueDictionary

from gateway.db.records import DataKeyRecord
from gateway.errors import DatabaseUnavailable
from gateway.layers.keyring import Keyring

_ACTOR = "lamina"


class DataKeySource(Protocol):
    """Data keys in the database; each call may raise DatabaseUnavailable."""

    async def of(self, tenant_id: str) -> Sequence[DataKeyRecord]:
        """A tenant's keys, destroyed ones too."""
        ...

    async def add(self, record: DataKeyRecord, actor: str) -> bool:
        """Makes a key the tenant's current one, unless it has one or is disabled."""
        ...


class DataKeys:
    """Reads keys when the tenant's credential sequence moves, so that no request waits for them otherwise.

    Args:
        source: the database.
        keyring: filled.
        on_fault: told why a tenant stays without a key; its answers are not stored then.
        now_s: seconds since the epoch.
    """

    def __init__(
        self,
        source: DataKeySource,
        keyring: Keyring,
        on_fault: Callable[[str], None],
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._source = source
        self._keyring = keyring
        self._on_fault = on_fault
        self._now_s = now_s
        self._wanting: set[str] = set()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lacks(self, tenant_id: str) -> bool:
        """Whether the tenant has no key to seal with, as far as this worker knows."""
        return self._keyring.of(tenant_id).current is None

    async def refresh(self, tenant_id: str, *, make: bool) -> None:
        """Reads the tenant's keys; with `make`, one that has none gets its first.

        One at a time per tenant, so that what was read earlier never takes the place of what was read later, and a
        key that was destroyed in between does not come back.

        Raises:
            DatabaseUnavailable: they cannot be read. Where one can only not be written, the tenant goes without.
        """
        turn = self._turns.setdefault(tenant_id, asyncio.Lock())
        async with turn:
            await self._refresh(tenant_id, make=make)

    async def _refresh(self, tenant_id: str, *, make: bool) -> None:
        records = await self._source.of(tenant_id)
        if make and all(record.retired_at is not None for record in records):
            made, wrapped = self._keyring.fresh(tenant_id)
            record = DataKeyRecord(
                made.key_id, tenant_id, wrapped, self._keyring.masters.current.key_id, self._now_s()
            )
            try:
                await self._source.add(record, _ACTOR)
            except DatabaseUnavailable:
                self._wanting.add(tenant_id)
                self._on_fault("no_key")
            else:
                self._wanting.discard(tenant_id)
            records = await self._source.of(tenant_id)
        before = self._keyring.unopened
        self._keyring.take(tenant_id, records)
        if self._keyring.unopened > before:
            self._on_fault("wrapped_by_another")

    async def retry(self) -> None:
        """Tries again where a first key could not be made.

        Raises:
            DatabaseUnavailable: it still does not answer.
        """
        for tenant_id in list(self._wanting):
            await self.refresh(tenant_id, make=True)
