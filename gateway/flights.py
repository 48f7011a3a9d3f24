"""Flights: one model call per key at a time; everybody who asks meanwhile rides along.

A flight runs in a task of its own, so that no passenger's leaving can hurt the others; when the last one leaves,
the task is cancelled and the upstream call with it. The flight's key holds the purge sequence, so that a request
that begins after a purge never joins a call that began before it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.errors import ApiError, UpstreamError
from gateway.routes import Target
from policies.decide import Discard, Store
from policies.types import ChatResponse

Failure = UpstreamError | ApiError


@dataclass(frozen=True, slots=True)
class Landing:
    """How a flight ended well.

    Attributes:
        response: the whole answer.
        decision: whether it was stored, and why not.
    """

    response: ChatResponse
    decision: Store | Discard


class Flight:
    """One model call in progress: a growing list of chunks, then a landing or a failure.

    Attributes:
        target: who answers; set when the answer begins.
        headers: upstream headers to relay; set with it.
    """

    def __init__(self, forget: Callable[[], None]) -> None:
        self._chunks: list[dict[str, Any]] = []
        self._wake: asyncio.Future[None] | None = None
        self._forget = forget
        self._passengers = 0
        self._failure: Failure | None = None
        self._task: asyncio.Task[None] | None = None
        self.landing: Landing | None = None
        self.target: Target | None = None
        self.headers: Mapping[str, str] = {}

    def start(self, work: Callable[["Flight"], Awaitable[None]]) -> None:
        """Runs the model call; its end, whatever it is, wakes the passengers."""
        self._task = asyncio.create_task(self._run(work), name="flight")

    async def _run(self, work: Callable[["Flight"], Awaitable[None]]) -> None:
        try:
            await work(self)
        finally:
            self._forget()
            if self.landing is None and self._failure is None:
                self._failure = ApiError(500, "The gateway failed while it asked the model.", kind="server_error")
            self._woken()

    def begin(self, target: Target, headers: Mapping[str, str]) -> None:
        """The answer has begun: from here on the flight streams."""
        self.target = target
        self.headers = headers
        self._woken()

    def publish(self, chunk: dict[str, Any]) -> None:
        """One more chunk for every passenger."""
        self._chunks.append(chunk)
        self._woken()

    def land(self, landing: Landing) -> None:
        """The answer is whole; nobody may join any more."""
        self.landing = landing
        self._forget()
        self._woken()

    def fail(self, failure: Failure) -> None:
        """The call failed; every passenger is told the same."""
        self._failure = failure
        self._forget()
        self._woken()

    def _woken(self) -> None:
        wake, self._wake = self._wake, None
        if wake is not None and not wake.done():
            wake.set_result(None)

    async def changed(self) -> None:
        """Returns after the next change.

        Raises:
            UpstreamError, ApiError: the call has failed already.
        """
        if self._failure is not None:
            raise self._failure
        if self._wake is None:
            self._wake = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._wake)

    def chunks_from(self, position: int) -> list[dict[str, Any]]:
        """The chunks that have come since."""
        return self._chunks[position:]

    def board(self) -> "Passenger":
        """A place on the flight."""
        self._passengers += 1
        return Passenger(self)

    def left(self) -> None:
        """One passenger less; the last one out stops the call."""
        self._passengers -= 1
        if self._passengers == 0 and self._task is not None and not self._task.done() and self.landing is None:
            self._forget()
            self._task.cancel()


class Passenger:
    """One request's view of a flight; `leave` it exactly once, whatever happens."""

    __slots__ = ("_aboard", "_flight", "_next")

    def __init__(self, flight: Flight) -> None:
        self._flight = flight
        self._next = 0
        self._aboard = True

    @property
    def flight(self) -> Flight:
        """The flight."""
        return self._flight

    async def begun(self) -> None:
        """Returns when the answer has begun or is whole.

        Raises:
            UpstreamError, ApiError: the call failed before that.
        """
        while self._flight.target is None and self._flight.landing is None:
            await self._flight.changed()

    async def landed(self) -> Landing:
        """The whole answer.

        Raises:
            UpstreamError, ApiError: the call failed.
        """
        while self._flight.landing is None:
            await self._flight.changed()
        return self._flight.landing

    async def batches(self) -> AsyncIterator[list[dict[str, Any]]]:
        """Every chunk from the first one on, as many at a time as have come; ends when the flight has landed.

        Raises:
            UpstreamError, ApiError: the call failed on the way.
        """
        while True:
            batch = self._flight.chunks_from(self._next)
            if batch:
                self._next += len(batch)
                yield batch
            elif self._flight.landing is not None:
                return
            else:
                await self._flight.changed()

    def leave(self) -> None:
        """Gives up the place; harmless when done twice."""
        if self._aboard:
            self._aboard = False
            self._flight.left()


class Flights:
    """The flights of this worker by key."""

    def __init__(self, changed: Callable[[int], None]) -> None:
        self._flights: dict[Hashable, Flight] = {}
        self._changed = changed

    def join_or_lead(
        self, key: Hashable | None, work: Callable[[Flight], Awaitable[None]]
    ) -> tuple[Passenger, bool]:
        """A place on the flight of this key, and whether this request leads it.

        Args:
            key: None for a call that nobody may share.
            work: called for the leader: makes the call and lands or fails the flight.
        """
        running = None if key is None else self._flights.get(key)
        if running is not None:
            return running.board(), False
        over = False

        def forget() -> None:
            nonlocal over
            if not over:
                over = True
                self._changed(-1)
                if key is not None and self._flights.get(key) is flight:
                    del self._flights[key]

        flight = Flight(forget)
        if key is not None:
            self._flights[key] = flight
        self._changed(1)
        passenger = flight.board()
        flight.start(work)
        return passenger, True

    def running(self, key: Hashable) -> bool:
        """Whether a flight of this key can be joined."""
        return key in self._flights

    def __len__(self) -> int:
        """How many flights can be joined."""
        return len(self._flights)
