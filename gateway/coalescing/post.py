"""What workers say to each other: each has an inbox, and every message names the lease that it is about.

Layout: kind (1) | token (32) | rest. `W` follower to leader: inbox (32), chunks it has (8); `L` the same way:
inbox (32), it has left; `F` leader to follower: a sealed frame; `G` the same way: it leads no more.
"""

import asyncio
from collections.abc import Callable

from gateway.coalescing.following import Follower
from gateway.coalescing.leading import FRAME, GONE, Leading
from gateway.coalescing.leases import TOKEN_CHARS, HeldBy, Leases
from gateway.redis_link import Inbox

WANT, LEAVE = b"W", b"L"
_POSITION_BYTES = 8


class Post:
    """Sorts the inbox of this worker: to the calls that it leads, and to those that it follows.

    Args:
        leases: sends, and names channels.
        lease_s: for so long somebody may ask for a call that has ended.
        on_fault: told why something was not understood.
    """

    def __init__(self, leases: Leases, lease_s: float, on_fault: Callable[[str], None]) -> None:
        self._leases = leases
        self._lease_s = lease_s
        self._leading: dict[bytes, Leading] = {}
        self._early: dict[bytes, list[tuple[bytes, bytes]]] = {}
        self._following: dict[bytes, Follower] = {}
        self._inbox: Inbox | None = None
        self._task: asyncio.Task[None] | None = None
        self.fault = on_fault

    def open(self, inbox: Inbox) -> None:
        """Begins to listen, in the background."""
        self._inbox = inbox
        self._task = asyncio.create_task(inbox.run(), name="inbox")

    async def close(self) -> None:
        """Stops listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def listens(self) -> bool:
        """Whether what others say now would be heard; else it is counted that it would not."""
        if self._inbox is not None and self._inbox.listening:
            return True
        self.fault("deaf")
        return False

    def expect(self, token: str) -> None:
        """A lease is asked for under this token: who wants something of it before it is given is kept in mind."""
        self._early[token.encode()] = []

    def expect_no_more(self, token: str) -> None:
        """It was not given."""
        self._early.pop(token.encode(), None)

    def lead(self, leading: Leading) -> None:
        """This worker leads a call."""
        token = leading.lease.token.encode()
        self._leading[token] = leading
        for kind, rest in self._early.pop(token, ()):
            self._wanted(kind, token, rest)

    def over(self, leading: Leading) -> None:
        """Forgets a call that has ended, once nobody can ask for it any more."""
        token = leading.lease.token.encode()
        if leading.spoke:
            asyncio.get_running_loop().call_later(self._lease_s, lambda: self._leading.pop(token, None))
        else:
            self._leading.pop(token, None)

    def follow(self, follower: Follower) -> None:
        """This worker follows a call."""
        self._following[follower.held.token.encode()] = follower

    def follow_no_more(self, follower: Follower) -> None:
        """It has ended, or nobody here waits any more; the leader is told unless it said so itself."""
        token = follower.held.token.encode()
        if self._following.get(token) is follower:
            del self._following[token]
        if not follower.ended:
            self.decline(follower.held)

    def decline(self, held: HeldBy) -> None:
        """Tells a leader that nobody here follows: to find it was to ask it to relay."""
        self._leases.send(held.inbox, LEAVE + held.token.encode() + self._leases.inbox.encode())

    def want(self, follower: Follower) -> None:
        """Asks the leader for what is missing, or says that somebody still listens."""
        have = follower.have.to_bytes(_POSITION_BYTES, "big")
        token, inbox = follower.held.token.encode(), self._leases.inbox.encode()
        self._leases.send(follower.held.inbox, WANT + token + inbox + have)

    def take(self, message: bytes) -> None:
        """A word of another worker; what is not understood is counted."""
        kind, token, rest = message[:1], message[1 : 1 + TOKEN_CHARS], message[1 + TOKEN_CHARS :]
        try:
            if kind in (FRAME, GONE):
                follower = self._following.get(token)
                if follower is not None:
                    follower.take(rest if kind == FRAME else None)
            elif kind in (WANT, LEAVE):
                self._wanted(kind, token, rest)
            else:
                self.fault("message")
        except Exception as error:  # noqa: BLE001  (recorded; the other messages of the connection are not to suffer)
            self.fault(type(error).__name__)

    def _wanted(self, kind: bytes, token: bytes, rest: bytes) -> None:
        if token in self._early:
            self._early[token].append((kind, rest))
            return
        leading, inbox = self._leading.get(token), self._leases.channel(rest[:TOKEN_CHARS].decode("ascii"))
        if leading is None:
            if kind == WANT:
                self._leases.send(inbox, GONE + token)
        elif kind == LEAVE:
            leading.unseat(inbox)
        else:
            leading.seat(inbox, int.from_bytes(rest[TOKEN_CHARS : TOKEN_CHARS + _POSITION_BYTES], "big"))
