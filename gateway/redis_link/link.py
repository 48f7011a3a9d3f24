"""The link: connects on demand, fails within its deadline, opens its breaker, and probes until Redis is back."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from gateway.errors import StoreUnavailable
from gateway.redis_link.connection import CLOSED_BY_PEER, Connection, ReplyError
from gateway.redis_link.target import RedisTarget
from gateway.tls import tls_reason

RAISE_TO_MAX = """
local held = {}
for i = 1, #KEYS do
  local now = tonumber(redis.call('GET', KEYS[i]) or '-1') or -1
  if tonumber(ARGV[i]) > now then redis.call('SET', KEYS[i], ARGV[i]) end
  held[i] = redis.call('GET', KEYS[i])
end
return held
"""


class RedisLink:
    """Commands to Redis, each answered or refused within the deadline.

    While the breaker is open a call costs nothing: it is refused at once, and a background probe asks Redis every
    `retry_s` until it answers. Redis errors (WRONGTYPE, OOM, READONLY) are faults of one command, not of the link.

    Every connection has an epoch; a reply from a new one means that Redis may have lost writes in between.
    """

    def __init__(
        self,
        target: RedisTarget,
        *,
        deadline_s: float,
        failures: int,
        retry_s: float,
        on_fault: Callable[[str], None],
    ) -> None:
        self._target = target
        self._tls = target.open_tls()
        self._deadline_s = deadline_s
        self._allowed = failures
        self._retry_s = retry_s
        self._on_fault = on_fault
        self._failures = 0
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[Connection] | None = None
        self._probe: asyncio.Task[None] | None = None
        self._closed = False
        self._dialled_count = 0

    @property
    def open(self) -> bool:
        """Whether calls are let through (the breaker is closed)."""
        return self._probe is None and not self._closed

    async def call(self, *command: str | bytes | int) -> Any:
        """One command's reply.

        Raises:
            StoreUnavailable: no reply within the deadline, no connection, an error reply, or the breaker is open.
        """
        reply, _ = await self.read(*command)
        return reply

    async def read(self, *command: str | bytes | int) -> tuple[Any, int]:
        """One command's reply, and the epoch of the connection that it came over.

        A connection that Redis had closed in the meantime, as it does to idle ones, costs one more try on a new
        one, within the same deadline; so only commands that may be done twice go this way.

        Raises:
            StoreUnavailable: as `call`.
        """
        due_s = asyncio.get_running_loop().time() + self._deadline_s  # one for all tries, connecting included
        connection = self._connection
        if connection is not None and connection.alive:
            try:
                return await self._ask(connection, command)
            except StoreUnavailable as error:
                if str(error) not in CLOSED_BY_PEER or self._closed:
                    raise
        connection = await self._connect()
        try:
            async with asyncio.timeout_at(due_s):
                return await self._ask(connection, command)
        except TimeoutError:
            self._on_fault("timeout")
            raise StoreUnavailable("timeout") from None

    async def _ask(self, connection: Connection, command: tuple[str | bytes | int, ...]) -> tuple[Any, int]:
        try:
            reply = await connection.call(command)
        except ReplyError as error:
            kind = str(error).partition(" ")[0]
            self._on_fault(f"reply_{kind.lower()}")
            raise StoreUnavailable(f"Redis refused: {kind}") from None
        self._failures = 0
        return reply, connection.epoch

    def post(self, *command: str | bytes | int) -> asyncio.Future[Any] | None:
        """Queues a command now, in order before any later call on this link; None when there is no connection.

        The caller must look at the future, or its fault is lost.

        Raises:
            StoreUnavailable: too much is outstanding.
        """
        connection = self._connection
        if connection is None or not connection.alive:
            return None
        return connection.call(command)

    async def raise_to(self, values: dict[str, int]) -> tuple[int, ...]:
        """Raises counters to at least these values in one atomic step; keys must share a hash slot.

        Returns:
            What they are now, in order; more than asked for when somebody raised them before.

        Raises:
            StoreUnavailable: as `call`.
        """
        held = await self.call("EVAL", RAISE_TO_MAX, len(values), *values, *values.values())
        try:
            return tuple(int(value) for value in held)
        except (TypeError, ValueError):
            raise StoreUnavailable("a reply of another shape") from None

    async def _connect(self) -> Connection:
        if self._closed or self._probe is not None:
            raise StoreUnavailable("breaker open")
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._dial(), name="redis-connect")
            self._connecting.add_done_callback(self._dialled)
        connecting = self._connecting
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            if connecting.cancelled():  # by `close`, not our caller
                raise StoreUnavailable("closed") from None
            raise

    def _dialled(self, task: asyncio.Task[Connection]) -> None:
        self._connecting = None
        if not task.cancelled():
            task.exception()

    async def _dial(self) -> Connection:
        try:
            async with asyncio.timeout(self._deadline_s):
                connection = await self._opened()
                try:
                    await asyncio.gather(*[connection.call(command) for command in self._target.greeting()])
                except (ReplyError, StoreUnavailable, asyncio.CancelledError):
                    connection.fail("greeting")
                    raise
        except (OSError, TimeoutError, UnicodeError, ReplyError, StoreUnavailable) as error:
            reason = _reason(error, encrypted=self._tls is not None)
            self._failed(reason)
            raise StoreUnavailable(reason) from None
        self._dialled_count += 1
        connection.epoch = self._dialled_count
        self._connection = connection
        return connection

    async def _opened(self) -> Connection:
        loop = asyncio.get_running_loop()
        target = self._target

        def make() -> Connection:
            return Connection(self._deadline_s, self._on_lost)

        if target.path is not None:
            _, connection = await loop.create_unix_connection(make, target.path)
        else:
            tls = None if self._tls is None else self._tls.current()
            _, connection = await loop.create_connection(make, target.host, target.port, ssl=tls)
        return connection

    def _on_lost(self, reason: str) -> None:
        if self._connection is None or self._connection.alive or self._closed:
            return
        self._connection = None
        self._failed(reason.replace(" ", "_"))

    def _failed(self, reason: str) -> None:
        self._failures += 1
        self._on_fault(reason)
        if self._failures >= self._allowed and self._probe is None and not self._closed:
            self._probe = asyncio.create_task(self._probe_until_back(), name="redis-probe")

    async def _probe_until_back(self) -> None:
        try:
            while not self._closed:
                await asyncio.sleep(self._retry_s)
                with contextlib.suppress(StoreUnavailable):
                    await self._dial()
                    break
        finally:
            self._failures = 0
            self._probe = None

    async def close(self) -> None:
        """Drops the connection and stops probing; later calls are refused."""
        self._closed = True
        tasks = [task for task in (self._probe, self._connecting) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._connection is not None:
            self._connection.fail("closed")
            self._connection = None


def _reason(error: Exception, *, encrypted: bool) -> str:
    """Why no connection came about, for metrics and callers."""
    if isinstance(error, TimeoutError) or str(error) == "timeout":
        return "timeout"
    if encrypted and isinstance(error, StoreUnavailable) and str(error) in CLOSED_BY_PEER:
        return "tls"  # who wants a client's certificate hangs up only after the handshake
    return tls_reason(error) or "connect"
