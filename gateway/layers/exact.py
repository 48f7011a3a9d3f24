"""The exact layer: whole answers in Redis; one round trip brings the tenant's sequences and the entry."""

import asyncio
from typing import Any, Self

import msgspec

from gateway.errors import StoreUnavailable
from gateway.layers.parts import Parts
from gateway.redis_link import RedisLink

_KEYS_WITH_SEQUENCES = 3
_MAX_SEQUENCE_DIGITS = 18


def auth_key(tenant_id: str) -> str:
    """Redis key of a tenant's credential sequence; the braces keep a tenant in one cluster slot."""
    return f"lamina:{{{tenant_id}}}:auth"


def purge_key(tenant_id: str) -> str:
    """Redis key of a tenant's purge sequence."""
    return f"lamina:{{{tenant_id}}}:purge"


def entry_key(tenant_id: str, digest_hex: str) -> str:
    """Redis key of an entry."""
    return f"lamina:{{{tenant_id}}}:e:{digest_hex}"


class Found(msgspec.Struct, frozen=True):
    """One round trip's result.

    Attributes:
        auth_seq, purge_seq: None when Redis does not know them (flushed, evicted, new).
        value: the stored bytes, not yet verified; None when there are none.
        epoch: the connection they came over.
    """

    auth_seq: int | None
    purge_seq: int | None
    value: bytes | None
    epoch: int


class ExactLayer:
    """Reads and writes entries of the exact layer."""

    name = "exact"

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    @classmethod
    def from_parts(cls, parts: Parts) -> Self:
        """The layer over the set's Redis."""
        return cls(parts.redis)

    async def look_up(self, tenant_id: str, digest_hex: str | None) -> Found:
        """The tenant's sequences and, when a key is given, its entry.

        Raises:
            StoreUnavailable: no answer within the deadline.
        """
        prefix = f"lamina:{{{tenant_id}}}:"
        if digest_hex is None:
            reply, epoch = await self._link.read("MGET", prefix + "auth", prefix + "purge")
            reply = [*reply, None]
        else:
            keys = (prefix + "auth", prefix + "purge", prefix + "e:" + digest_hex)
            reply, epoch = await self._link.read("MGET", *keys)
        return _found(reply, epoch)

    def write(self, tenant_id: str, digest_hex: str, value: bytes, keep_s: float) -> asyncio.Future[Any] | None:
        """Queues the write now, ahead of any later look-up of this worker; it expires after `keep_s`.

        Returns:
            The future of Redis's reply, to be looked at; None when there is no connection.

        Raises:
            StoreUnavailable: too much is outstanding.
        """
        keep_ms = max(1, int(keep_s * 1000))
        return self._link.post("SET", entry_key(tenant_id, digest_hex), value, "PX", keep_ms)

    def drop(self, tenant_id: str, digest_hex: str) -> None:
        """Queues the deletion of an entry that proved to be none of ours; if that fails, the next reader tries."""
        deleted = self._link.post("DEL", entry_key(tenant_id, digest_hex))
        if deleted is not None:
            deleted.add_done_callback(lambda future: future.cancelled() or future.exception())


def _found(reply: Any, epoch: int) -> Found:
    if not isinstance(reply, list) or len(reply) != _KEYS_WITH_SEQUENCES:
        raise StoreUnavailable("a reply of another shape")
    auth, purge, value = reply
    return Found(_sequence(auth), _sequence(purge), value if isinstance(value, bytes) else None, epoch)


def _sequence(raw: Any) -> int | None:
    if isinstance(raw, bytes) and raw.isdigit() and len(raw) <= _MAX_SEQUENCE_DIGITS:
        return int(raw)
    return None
