"""A keyring with a data key per tenant, as a worker has it after it has read the database."""

from collections.abc import Iterable

from gateway.db import DataKeyRecord
from gateway.layers.keyring import Keyring
from policies.encryption import MasterKeys, master_key

MASTER = master_key("m" * 32)


def record(ring: Keyring, tenant_id: str, created_at: float = 1.0) -> DataKeyRecord:
    """A fresh key as the database would hold it."""
    made, wrapped = ring.fresh(tenant_id)
    return DataKeyRecord(made.key_id, tenant_id, wrapped, ring.masters.current.key_id, created_at)


def keyring(tenant_ids: Iterable[str] = ("t1", "t2")) -> Keyring:
    """Tenants with one key each."""
    ring = Keyring(MasterKeys(MASTER))
    for tenant_id in tenant_ids:
        ring.take(tenant_id, [record(ring, tenant_id)])
    return ring
