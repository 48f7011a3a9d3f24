"""Leases in Redis: scripts that take or find one, renew it and relay, write under it, end it; all check the token.

A lease is a string under a key in its tenant's hash slot: the token of its holder, then the holder's inbox. It is
all that is kept; what is relayed goes through channels. Scripts work from Redis 6.2 on, in a cluster too.
"""

import asyncio
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gateway.errors import StoreUnavailable
from gateway.flights import FlightName
from gateway.layers.exact import entry_key
from gateway.redis_link import RedisLink
from policies.leases import Held, Terms, confirmed, holds

TOKEN_CHARS = 32
MARK_BYTES = 64
"""The beginning of a stored value, which tells it from any other: it holds a MAC, or random bytes."""

_JOIN = """
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then
  redis.call('PUBLISH', ARGV[5] .. string.sub(held, 33), 'W' .. string.sub(held, 1, 32) .. ARGV[4])
  return {held, redis.call('PTTL', KEYS[1])}
end
if not held then
  local mark = redis.call('GETRANGE', KEYS[2], 0, 63)
  if mark ~= '' and mark ~= ARGV[3] then return {'', redis.call('GET', KEYS[2])} end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {ARGV[1], ARGV[2]}
"""
_TELL = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
for i = 4, #ARGV do redis.call('PUBLISH', ARGV[i], ARGV[3]) end
return 1
"""
_WRITE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return 1
"""
_LET_GO = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""
_PARTS = 2


@dataclass(frozen=True, slots=True)
class HeldBy:
    """Another worker leads.

    Attributes:
        inbox: the channel it listens on.
        left_s: what its lease has left without a beat.
    """

    token: str
    inbox: str
    left_s: float


@dataclass(frozen=True, slots=True)
class Found:
    """Nobody leads any more, and the answer is stored: bytes yet to be proven."""

    value: bytes


class Lease:
    """A lease that this worker was given; each use says whether it is still held, as far as Redis has answered."""

    def __init__(self, link: RedisLink, name: FlightName, holder: str, terms: Terms, sent_s: float) -> None:
        self._link = link
        self._key = name.lease_key
        self._holder = holder
        self._terms = terms
        self._state = Held(sent_s)

    @property
    def token(self) -> str:
        """Known to its holder alone, and to those whom it tells."""
        return self._holder[:TOKEN_CHARS]

    @property
    def held(self) -> bool:
        """Whether this worker may believe that it leads."""
        return holds(self._state, self._terms, time.monotonic())

    def tell(self, inboxes: Iterable[str] = (), message: bytes = b"") -> None:
        """Renews the lease, and sends a message to these channels; neither happens once the lease is lost."""
        lease_ms = max(1, int(self._terms.lease_s * 1000))
        self._posted(_TELL, 1, self._key, self._holder, lease_ms, message, *inboxes)

    def write(self, tenant_id: str, digest_hex: str, value: bytes, keep_s: float) -> "asyncio.Future[Any] | None":
        """Queues the write of an entry; the reply is 0 when the lease was lost, and nothing is written then.

        Raises:
            StoreUnavailable: too much is outstanding.
        """
        keep_ms = max(1, int(keep_s * 1000))
        keys = (self._key, entry_key(tenant_id, digest_hex))
        return self._link.post("EVAL", _WRITE, 2, *keys, self._holder, value, keep_ms)

    def let_go(self) -> None:
        """Ends the lease now, if it is still this one."""
        let_go(self._link, self._key, self._holder)

    def _posted(self, script: str, *rest: str | bytes | int) -> None:
        sent_s = time.monotonic()
        try:
            reply = self._link.post("EVAL", script, *rest)
        except StoreUnavailable:
            return
        if reply is None:
            return

        def answered(future: "asyncio.Future[Any]") -> None:
            if not future.cancelled() and future.exception() is None:
                self._state = confirmed(self._state, sent_s, kept=future.result() == 1)

        reply.add_done_callback(answered)


def new_token() -> str:
    """A token that nobody else has."""
    return secrets.token_hex(TOKEN_CHARS // 2)


class Leases:
    """Takes leases for this worker.

    Args:
        prefix: of the names of channels.
        inbox: this worker's, without the prefix; as long as a token.
        deadline_s: longest wait for Redis.
    """

    def __init__(self, link: RedisLink, prefix: str, inbox: str, terms: Terms, deadline_s: float) -> None:
        self._link = link
        self._prefix = prefix
        self._inbox = inbox
        self._terms = terms
        self._deadline_s = deadline_s

    @property
    def inbox(self) -> str:
        """This worker's, without the prefix."""
        return self._inbox

    def channel(self, inbox: str) -> str:
        """The channel of a worker's inbox."""
        return self._prefix + inbox

    async def join(self, name: FlightName, token: str, seen: bytes, have: int) -> Lease | HeldBy | Found:
        """Leads the flight of this name, finds who does, or finds that its answer was stored meanwhile.

        A leader that is found is asked to relay, from the chunk after those that are there already.

        Args:
            name: the flight's.
            token: a new one, for the lease.
            seen: beginning of the stored value that the request saw and cannot use.
            have: chunks that are there.

        Raises:
            StoreUnavailable: Redis gave no usable answer in time.
        """
        holder = token + self._inbox
        keys = (name.lease_key, entry_key(name.tenant_id, name.digest_hex))
        lease_ms = max(1, int(self._terms.lease_s * 1000))
        want = self._inbox.encode() + have.to_bytes(8, "big")
        arguments = (holder, lease_ms, seen, want, self._prefix)
        sent_s = time.monotonic()
        try:
            async with asyncio.timeout(self._deadline_s):
                reply = await self._link.call("EVAL", _JOIN, 2, *keys, *arguments)
        except TimeoutError:
            let_go(self._link, name.lease_key, holder)
            raise StoreUnavailable("late") from None
        except asyncio.CancelledError:
            let_go(self._link, name.lease_key, holder)
            raise
        return self._understood(name, holder, reply, sent_s)

    def _understood(self, name: FlightName, holder: str, reply: Any, sent_s: float) -> Lease | HeldBy | Found:
        if isinstance(reply, list) and len(reply) == _PARTS and isinstance(reply[0], bytes):
            held, rest = reply
            if held == holder.encode():
                return Lease(self._link, name, holder, self._terms, sent_s)
            if not held and isinstance(rest, bytes):
                return Found(rest)
            if len(held) == len(holder) and held.isalnum() and type(rest) is int:
                text = held.decode()
                left_s = min(max(0, rest) / 1000, self._terms.lease_s)
                return HeldBy(text[:TOKEN_CHARS], self._prefix + text[TOKEN_CHARS:], left_s)
        raise StoreUnavailable("a reply of another shape")

    def send(self, channel: str, message: bytes) -> None:
        """Sends to a channel; what is lost is asked for again by whoever misses it."""
        post(self._link, "PUBLISH", channel, message)


def let_go(link: RedisLink, key: str, holder: str) -> None:
    """Ends a lease, if it is this holder's."""
    post(link, "EVAL", _LET_GO, 1, key, holder)


def post(link: RedisLink, *command: str | bytes | int) -> None:
    """Queues a command whose failure costs nothing that time does not mend; the link counts it."""
    try:
        reply = link.post(*command)
    except StoreUnavailable:
        return
    if reply is not None:
        reply.add_done_callback(lambda future: future.cancelled() or future.exception())
