"""Data keys that this worker may use, opened; filled from the database, read on the hot path without waiting."""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from gateway.db.records import DataKeyRecord
from policies.encryption import (
    FRESH_BYTES,
    KEY_BYTES,
    DataKey,
    MasterKeys,
    UnsealError,
    id_of,
    unwrap,
    wrap,
)


@dataclass(frozen=True, slots=True)
class TenantKeys:
    """A tenant's keys: what new values are sealed under, and all that may still open something, by tag."""

    current: DataKey | None
    by_tag: dict[bytes, DataKey]


_NONE = TenantKeys(None, {})


class Keyring:
    """Keys by tenant; a key that was destroyed is forgotten with the next `take`.

    Args:
        masters: what data keys are wrapped by.

    Attributes:
        masters: as given.
        generation: grows when a key is forgotten, so that what was opened with it can be forgotten too.
        unopened: keys of the last `take`s that no master key opens.
    """

    def __init__(self, masters: MasterKeys) -> None:
        self.masters = masters
        self.generation = 0
        self.unopened = 0
        self._tenants: dict[str, TenantKeys] = {}

    def of(self, tenant_id: str) -> TenantKeys:
        """The tenant's keys; none when none are known."""
        return self._tenants.get(tenant_id, _NONE)

    def take(self, tenant_id: str, records: Iterable[DataKeyRecord]) -> None:
        """Takes over what the database says of a tenant, all of it."""
        known = self.of(tenant_id).by_tag
        current: DataKey | None = None
        by_tag: dict[bytes, DataKey] = {}
        for record in records:
            opened = self._opened(tenant_id, record, known)
            if opened is None:
                continue
            by_tag[opened.tag] = opened
            if record.retired_at is None:
                current = opened
        if not known.keys() <= by_tag.keys():
            self.generation += 1
        self._tenants[tenant_id] = TenantKeys(current, by_tag)

    def _opened(self, tenant_id: str, record: DataKeyRecord, known: dict[bytes, DataKey]) -> DataKey | None:
        if record.wrapped is None:
            return None
        for one in known.values():
            if one.key_id == record.key_id:
                return one
        master = self.masters.find(record.master_id)
        if master is not None:
            try:
                return unwrap(master, tenant_id, record.key_id, record.wrapped)
            except UnsealError:
                pass
        self.unopened += 1
        return None

    def fresh(self, tenant_id: str) -> tuple[DataKey, bytes]:
        """A new data key, and the same wrapped; the keyring holds it only after a `take`."""
        made = DataKey(id_of(os.urandom(8)), os.urandom(KEY_BYTES))
        return made, wrap(self.masters.current, tenant_id, made, os.urandom(FRESH_BYTES))


def fresh_bytes() -> bytes:
    """Random bytes for one sealed value."""
    return os.urandom(FRESH_BYTES)
