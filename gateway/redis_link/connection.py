"""One connection: commands of one loop turn leave in one write, replies are matched in order."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import hiredis

from gateway.errors import StoreUnavailable
from gateway.tls import tls_reason

_MAX_PENDING = 20_000
_GRACE_S = 0.002
CLOSED_BY_PEER = frozenset({"connection lost", "ConnectionResetError", "BrokenPipeError"})
"""Reasons of a failure that say no more than that the other side had closed."""


class ReplyError(Exception):
    """Redis answered with an error; the connection is in step and stays."""


class Connection(asyncio.Protocol):
    """Pipelines commands; a reply that misses its deadline fails the connection and everything on it.

    Replies are matched by order alone, so a caller that gives up leaves its place in the queue: nobody can read
    another's reply (the public case: redis-py#2624).
    """

    def __init__(self, deadline_s: float, lost: Callable[[str], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline_s = deadline_s
        self._lost = lost
        self._reader = hiredis.Reader(replyError=ReplyError, protocolError=ReplyError)
        self._pending: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._out: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._warned = 0.0
        self._transport: asyncio.Transport | None = None
        self.alive = False
        self.epoch = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports subclass nothing
        self.alive = True

    def call(self, command: tuple[str | bytes | int, ...]) -> asyncio.Future[Any]:
        """Queues a command for this loop turn's write; the future has its reply.

        Raises:
            StoreUnavailable: the connection is lost, or too many replies are outstanding.
        """
        if not self.alive:
            raise StoreUnavailable("connection lost")
        if len(self._pending) >= _MAX_PENDING:
            raise StoreUnavailable("too many outstanding commands")
        future: asyncio.Future[Any] = self._loop.create_future()
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(hiredis.pack_command(command))  # type: ignore[arg-type]  # the stub says a 1-tuple
        due = self._loop.time() + self._deadline_s
        self._pending.append((future, due))
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._overdue)
        return future

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None and self.alive:
            self._transport.write(b"".join(out))

    def data_received(self, data: bytes) -> None:
        """Called by the loop: hands each reply to the caller whose turn it is."""
        try:
            self._reader.feed(data)
            reply = self._reader.gets()
            while reply is not False:
                if not self._pending:
                    self.fail("a reply nobody asked for")
                    return
                future, _ = self._pending.popleft()
                if isinstance(reply, ReplyError):
                    self._refuse(future, reply)
                elif not future.done():
                    future.set_result(reply)
                reply = self._reader.gets()
        except ReplyError:
            self.fail("a reply that is not Redis protocol")

    def _refuse(self, future: asyncio.Future[Any], error: ReplyError) -> None:
        if not future.done():
            future.set_exception(error)
        if str(error).startswith("READONLY"):  # a primary no more: stay, and every write is lost for ever
            self.fail("readonly")

    def _overdue(self) -> None:
        self._timer = None
        if not self._pending:
            return
        _, due = self._pending[0]
        if due > self._loop.time():
            self._timer = self._loop.call_at(due, self._overdue)
        elif self._warned == due:
            self.fail("timeout")
        else:
            # a busy loop may have the reply in its socket still: let it be read before it is called late
            self._warned = due
            self._timer = self._loop.call_later(_GRACE_S, self._overdue)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self.fail("connection lost" if exc is None else tls_reason(exc) or type(exc).__name__)

    def fail(self, reason: str) -> None:
        """Drops the connection and fails whatever waits on it; harmless when done twice."""
        if not self.alive:
            return
        self.alive = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()
        pending, self._pending = self._pending, deque()
        for future, _ in pending:
            if not future.done():
                future.set_exception(StoreUnavailable(reason))
        self._lost(reason)
