"""Raises a tenant's sequences in Redis, so that the next request on every worker sees a change."""

import asyncio
import time

from gateway.errors import StoreUnavailable
from gateway.home import with_home_services
from gateway.layers.exact import auth_key, purge_key
from gateway.redis_link import RedisLink, RedisTarget
from gateway.settings import Settings

_ATTEMPT_S = 1.0
_GIVE_UP_S = 5.0
_PAUSE_S = 0.2


class RedisAnnouncer:
    """Announces to one Redis; safe to repeat, since sequences only rise."""

    def __init__(self, target: RedisTarget, *, embedded: bool, give_up_s: float = _GIVE_UP_S) -> None:
        self._target = target
        self._embedded = embedded
        self._give_up_s = give_up_s

    @classmethod
    def from_settings(cls, settings: Settings) -> "RedisAnnouncer":
        """The announcer for the Redis that these settings name, or for the embedded one."""
        url = with_home_services(settings).redis_url
        return cls(RedisTarget.parse(url.get_secret_value() if url else ""), embedded=settings.redis_url is None)

    async def announce(self, tenant_id: str, auth_seq: int, purge_seq: int) -> tuple[int, int]:
        """Raises the tenant's sequences in Redis to at least these, trying for some seconds.

        An embedded Redis that is not running needs no word: whoever connects to it next reads the database first.

        Raises:
            StoreUnavailable: Redis did not confirm; workers still learn of it by their own poll of the database.
        """
        if self._embedded and not await self._is_running():
            return auth_seq, purge_seq
        link = RedisLink(self._target, deadline_s=_ATTEMPT_S, failures=1000, retry_s=1.0, on_fault=_no_counter)
        give_up_at = time.monotonic() + self._give_up_s
        try:
            while True:
                try:
                    wanted = {auth_key(tenant_id): auth_seq, purge_key(tenant_id): purge_seq}
                    held_auth, held_purge = await link.raise_to(wanted)
                except StoreUnavailable:
                    if time.monotonic() + _PAUSE_S > give_up_at:
                        raise
                    await asyncio.sleep(_PAUSE_S)
                else:
                    return held_auth, held_purge
        finally:
            await link.close()

    async def _is_running(self) -> bool:
        try:
            _, writer = await asyncio.open_unix_connection(self._target.path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError as error:
            raise StoreUnavailable(f"the socket of Redis cannot be opened: {error.strerror}") from None
        writer.close()
        await writer.wait_closed()
        return True


def _no_counter(reason: str) -> None:
    """A command's own process has no metrics; the error says it all."""
