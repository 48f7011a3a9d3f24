"""Salts: what keeps tenants apart in a model server's own prefix cache."""

from gateway.layers.entry import derive

_SALT_CHARS = 32
_MAX_SALTS = 10_000


class Salts:
    """Derives salts from the master secret, and remembers the latest of each tenant.

    A new epoch of either kind makes another salt, so that whatever was kept under the old one can never be found
    again: a purge that costs one HMAC, whatever its size.

    Args:
        secret: the master secret; a salt tells nothing of it.
        cache_epoch: the operator's, for all tenants.
    """

    def __init__(self, secret: bytes, cache_epoch: str) -> None:
        self._secret = secret
        self._cache_epoch = cache_epoch
        self._known: dict[str, tuple[int, str]] = {}

    def of(self, tenant_id: str, prefix_epoch: int) -> str:
        """32 hexadecimal characters, the same in every worker of a set.

        Args:
            tenant_id: from the credential alone.
            prefix_epoch: the tenant's, see PurgeIndex.
        """
        known = self._known.get(tenant_id)
        if known is None or known[0] != prefix_epoch:
            if len(self._known) >= _MAX_SALTS:
                self._known.clear()
            purpose = f"engine-salt/{self._cache_epoch}/{prefix_epoch}"
            known = prefix_epoch, derive(self._secret, purpose, tenant_id).hex()[:_SALT_CHARS]
            self._known[tenant_id] = known
        return known[1]
