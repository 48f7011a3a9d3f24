"""Data keys as the command line makes and re-wraps them."""

import os
from collections.abc import Callable

from gateway.db import DataKeyRecord
from policies.encryption import FRESH_BYTES, KEY_BYTES, DataKey, MasterKeys, UnsealError, id_of, unwrap, wrap


def fresh_key(masters: MasterKeys, tenant_id: str, now_s: float) -> DataKeyRecord:
    """A new data key, wrapped by the master key in use."""
    made = DataKey(id_of(os.urandom(8)), os.urandom(KEY_BYTES))
    wrapped = wrap(masters.current, tenant_id, made, os.urandom(FRESH_BYTES))
    return DataKeyRecord(made.key_id, tenant_id, wrapped, masters.current.key_id, now_s)


def rewrapper(
    masters: MasterKeys, lost: Callable[[DataKeyRecord], None]
) -> Callable[[DataKeyRecord], tuple[str, bytes] | None]:
    """Wraps a key by the master key in use, unless it is already; `lost` hears of those that no key here opens."""

    def rewrap(record: DataKeyRecord) -> tuple[str, bytes] | None:
        current = masters.current
        if record.wrapped is None or record.master_id == current.key_id:
            return None
        data_key = _opened(masters, record, record.wrapped)
        if data_key is None:
            lost(record)
            return None
        return current.key_id, wrap(current, record.tenant_id, data_key, os.urandom(FRESH_BYTES))

    return rewrap


def _opened(masters: MasterKeys, record: DataKeyRecord, wrapped: bytes) -> DataKey | None:
    master = masters.find(record.master_id)
    try:
        return None if master is None else unwrap(master, record.tenant_id, record.key_id, wrapped)
    except UnsealError:
        return None
