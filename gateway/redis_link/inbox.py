"""A worker's inbox: one connection that listens on one channel, kept up in the background for ever."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import hiredis

from gateway.redis_link.connection import ReplyError
from gateway.redis_link.target import RedisTarget

_PING_S = 1.0
_SILENT_S = 3.0
_MESSAGE, _PARTS = b"message", 3


class Inbox:
    """Hands each message on the channel to `take`; while it does not listen, messages are lost.

    Args:
        channel: its name.
        deadline_s: to connect and subscribe.
        retry_s: between tries.
        take: must not raise.
        on_fault: told why a connection was lost.
    """

    def __init__(  # noqa: PLR0917  (the parts of one connection)
        self,
        target: RedisTarget,
        channel: str,
        deadline_s: float,
        retry_s: float,
        take: Callable[[bytes], None],
        on_fault: Callable[[str], None],
    ) -> None:
        self._target = target
        self._tls = target.open_tls()
        self._channel = channel
        self._deadline_s = deadline_s
        self._retry_s = retry_s
        self._take = take
        self._on_fault = on_fault
        self._subscription: _Subscription | None = None
        self._up = False

    @property
    def listening(self) -> bool:
        """Whether a message sent now would come."""
        subscription = self._subscription
        return subscription is not None and subscription.subscribed and not subscription.lost.done()

    async def run(self) -> None:
        """Listens until cancelled; says once per outage that it cannot."""
        try:
            while True:
                reason = await self._listen()
                if self._up or reason != "connect":
                    self._on_fault(reason)
                self._up = False
                await asyncio.sleep(self._retry_s)
        finally:
            self._drop()

    async def _listen(self) -> str:
        try:
            async with asyncio.timeout(self._deadline_s):
                subscription = await self._opened()
                self._subscription = subscription
                subscription.send(self._target.greeting(), self._channel)
                await subscription.ready()
        except (OSError, TimeoutError, UnicodeError):
            self._drop()
            return "connect"
        self._up = True
        while not subscription.lost.done():
            await asyncio.wait((subscription.lost,), timeout=_PING_S)
            if time.monotonic() - subscription.heard_s > _SILENT_S:
                break
            subscription.ping()
        self._drop()
        return subscription.lost.result() if subscription.lost.done() else "silent"

    async def _opened(self) -> "_Subscription":
        loop, target = asyncio.get_running_loop(), self._target

        def make() -> _Subscription:
            return _Subscription(self._take)

        if target.path is not None:
            _, made = await loop.create_unix_connection(make, target.path)
        else:
            tls = None if self._tls is None else self._tls.current()
            _, made = await loop.create_connection(make, target.host, target.port, ssl=tls)
        return made

    def _drop(self) -> None:
        if self._subscription is not None:
            self._subscription.abort()
            self._subscription = None


class _Subscription(asyncio.Protocol):
    """One connection in subscribed mode."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self._reader = hiredis.Reader(replyError=ReplyError, protocolError=ReplyError)
        self._transport: asyncio.Transport | None = None
        self._subscribed = asyncio.get_running_loop().create_future()
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.heard_s = time.monotonic()
        self.subscribed = False

    async def ready(self) -> None:
        """Returns when the channel is listened on.

        Raises:
            OSError: the connection was lost before.
        """
        await asyncio.wait((self._subscribed, self.lost), return_when=asyncio.FIRST_COMPLETED)
        if not self.subscribed:
            raise ConnectionError

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports subclass nothing

    def send(self, greeting: list[tuple[str, ...]], channel: str) -> None:
        """Introduces itself and subscribes."""
        for command in (*greeting, ("SUBSCRIBE", channel)):
            self._write(command)

    def ping(self) -> None:
        """Asks for a sign of life."""
        self._write(("PING",))

    def _write(self, command: tuple[str, ...]) -> None:
        if self._transport is not None:
            self._transport.write(hiredis.pack_command(command))  # type: ignore[arg-type]  # the stub says a 1-tuple

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self.heard_s = time.monotonic()
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                self._got(reply)
        except ReplyError:
            self._fail("garbled")

    def _got(self, reply: Any) -> None:
        if isinstance(reply, ReplyError):
            self._fail("refused")
        elif isinstance(reply, list) and len(reply) == _PARTS:
            if reply[0] == _MESSAGE and isinstance(reply[2], bytes):
                self._take(reply[2])
            elif reply[0] == b"subscribe" and not self._subscribed.done():
                self.subscribed = True
                self._subscribed.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self._fail("lost" if exc is None else type(exc).__name__)

    def _fail(self, reason: str) -> None:
        if not self.lost.done():
            self.lost.set_result(reason)
        self.abort()

    def abort(self) -> None:
        """Drops the connection; harmless when done twice."""
        self.subscribed = False
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
