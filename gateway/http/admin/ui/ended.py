"""Sessions that were ended before their time, on every worker."""

import math

from gateway.errors import StoreUnavailable
from gateway.http.admin.ui.sessions import Session
from gateway.redis_link import RedisLink

_PREFIX = "lamina:ui:ended:"
_MOST = 10_000


class Ended:
    """Remembers sign-outs, in Redis and in this worker.

    While Redis is away, other workers do not learn of a sign-out; the browser has lost its cookie all the same.
    """

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._here: dict[bytes, float] = {}

    async def end(self, session: Session, now_s: float) -> None:
        """Ends a session."""
        if len(self._here) >= _MOST:
            self._here = {nonce: until_s for nonce, until_s in self._here.items() if until_s > now_s}
        self._here[session.nonce] = session.until_s
        left_s = max(1, math.ceil(session.until_s - now_s))
        try:
            await self._link.call("SET", _name(session), "1", "EX", left_s)
        except StoreUnavailable:  # counted by the link
            return

    async def has(self, session: Session) -> bool:
        """Whether a session was ended."""
        if session.nonce in self._here:
            return True
        try:
            return bool(await self._link.call("EXISTS", _name(session)))
        except StoreUnavailable:
            return False


def _name(session: Session) -> str:
    return _PREFIX + session.nonce.hex()
