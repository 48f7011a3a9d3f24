"""Announcing over the connection to Redis that a worker has anyway."""

import asyncio
import time

from gateway.errors import StoreUnavailable
from gateway.layers.exact import auth_key, purge_key
from gateway.redis_link import RedisLink

_PAUSE_S = 0.1
_GIVE_UP_S = 2.0


class LinkAnnouncer:
    """Announces to the worker's own Redis; keeps `Announcer`.

    Args:
        link: has the deadline of a request, which a busy moment may pass.
        give_up_s: how long it goes on trying after a first failure.
    """

    def __init__(self, link: RedisLink, give_up_s: float = _GIVE_UP_S) -> None:
        self._link = link
        self._give_up_s = give_up_s

    async def announce(self, tenant_id: str, auth_seq: int, purge_seq: int) -> tuple[int, int]:
        """See Announcer."""
        wanted = {auth_key(tenant_id): auth_seq, purge_key(tenant_id): purge_seq}
        until_s = time.monotonic() + self._give_up_s
        while True:
            try:
                held = await self._link.raise_to(wanted)
            except StoreUnavailable:
                if time.monotonic() >= until_s:
                    raise
                await asyncio.sleep(_PAUSE_S)
            else:
                return held[0], held[1]
