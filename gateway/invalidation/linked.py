"""Announcing over the connection to Redis that a worker has anyway."""

from gateway.layers.exact import auth_key, purge_key
from gateway.redis_link import RedisLink


class LinkAnnouncer:
    """Announces to the worker's own Redis; keeps `Announcer`."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def announce(self, tenant_id: str, auth_seq: int, purge_seq: int) -> tuple[int, int]:
        """See Announcer."""
        held = await self._link.raise_to({auth_key(tenant_id): auth_seq, purge_key(tenant_id): purge_seq})
        return held[0], held[1]
