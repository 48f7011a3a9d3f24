"""One model call and those who ride along.

A flight runs in a task of its own, so that no passenger's leaving can hurt the others; when the last one leaves,
the task is cancelled and the upstream call with it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.errors import ApiError, UpstreamError
from gateway.routes import Target
from policies.decide import Discard, Store
from policies.leases import shareable
from policies.types import ChatResponse

Failure = UpstreamError | ApiError
Chunk = dict[str, Any]

_OF_ONE_TAKE = frozenset({"id", "created", "system_fingerprint", "usage"})
"""What two takes of one answer may differ in."""


@dataclass(frozen=True, slots=True)
class FlightName:
    """What a flight is called in Redis; two requests of one name may share a model call.

    Attributes:
        kind: `f` for answers, `r` for refreshes.
        digest_hex: of the full key.
        purge_seq: the tenant's as the request saw it, so that no request rides with a call from before a purge.
    """

    tenant_id: str
    digest_hex: str
    purge_seq: int
    kind: str = "f"

    @property
    def lease_key(self) -> str:
        """Redis key of its lease."""
        return f"lamina:{{{self.tenant_id}}}:{self.kind}:{self.digest_hex}:{self.purge_seq}"


class Elsewhere(ApiError):  # noqa: N818  (a state)
    """Another worker makes this call, and nobody here waits for it."""

    def __init__(self) -> None:
        super().__init__(409, "Another worker refreshes this entry.", code="elsewhere")


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

    A call that another worker made and lost is made again: a new take. Whoever has had chunks of the old one goes
    on behind them where they come again, and is cut where they do not.

    Attributes:
        target: who answers; set when the answer begins.
        headers: upstream headers to relay; set with it.
        relayed: the call is another worker's.
        watch: called after each change, beside the passengers.
    """

    def __init__(self, forget: Callable[[], None]) -> None:
        self._takes: list[list[Chunk]] = [[]]
        self._wake: asyncio.Future[None] | None = None
        self._forget = forget
        self._passengers: dict[Passenger, None] = {}
        self._captain: Passenger | None = None
        self._failure: Failure | None = None
        self._task: asyncio.Task[None] | None = None
        self.landing: Landing | None = None
        self.target: Target | None = None
        self.headers: Mapping[str, str] = {}
        self.relayed = False
        self.watch: Callable[[], None] | None = None

    def start(self, work: "Work") -> None:
        """Runs the model call; its end, whatever it is, wakes the passengers."""
        self._task = asyncio.create_task(self._run(work), name="flight")

    async def _run(self, work: "Work") -> None:
        try:
            await work(self)
        finally:
            self._forget()
            if self.landing is None and self._failure is None:
                self._failure = ApiError(500, "The gateway failed while it asked the model.", kind="server_error")
            self._woken()

    @property
    def take(self) -> int:
        """Number of the current take."""
        return len(self._takes) - 1

    @property
    def chunks(self) -> list[Chunk]:
        """The chunks of the current take; not to be changed."""
        return self._takes[-1]

    def begin(self, target: Target, headers: Mapping[str, str]) -> None:
        """The answer has begun: from here on the flight streams."""
        self.target = target
        self.headers = headers
        self._woken()

    def publish(self, chunk: Chunk) -> None:
        """One more chunk for every passenger."""
        self._takes[-1].append(chunk)
        self._woken()

    def restart(self) -> None:
        """Begins a new take, when the call of another worker was lost."""
        self._takes.append([])
        self.target, self.headers = None, {}

    def hand_over(self, failure: Failure) -> bool:
        """Fails the passenger that leads, whose call it was; False when nobody else waits for its first chunk.

        The work goes on for the others, who have had nothing; one of them leads now.
        """
        others = [one for one in self._passengers if one is not self._captain and one.waits]
        if not others:
            return False
        if self._captain is not None:
            self._captain.failure = failure
        self._captain = others[0]
        self._woken()
        return True

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
        if self.watch is not None:
            self.watch()

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

    def chunks_from(self, take: int, position: int) -> list[Chunk]:
        """The chunks of a take that have come since."""
        return self._takes[take][position:]

    def board(self, alone: "Callable[[], Flight] | None" = None, *, leads: bool = False) -> "Passenger":
        """A place on the flight.

        Args:
            alone: starts a flight for this passenger alone, should the answer not be for sharing; None: it stays.
            leads: whether the call is this passenger's own.
        """
        passenger = Passenger(self, alone)
        self.seat(passenger, leads=leads)
        return passenger

    def seat(self, passenger: "Passenger", *, leads: bool) -> None:
        """Takes a passenger aboard."""
        self._passengers[passenger] = None
        if leads:
            self._captain = passenger

    def led_by(self, passenger: "Passenger") -> bool:
        """Whether the call is this passenger's own."""
        return self._captain is passenger and not self.relayed

    def left(self, passenger: "Passenger") -> None:
        """One passenger less; the last one out stops the call."""
        self._passengers.pop(passenger, None)
        if not self._passengers and self._task is not None and not self._task.done() and self.landing is None:
            self._forget()
            self._task.cancel()


Work = Callable[[Flight], Awaitable[None]]
"""Makes the call and lands or fails the flight."""


class Passenger:
    """One request's view of a flight; `leave` it exactly once, whatever happens.

    Attributes:
        failure: of this passenger alone.
    """

    __slots__ = ("_aboard", "_alone", "_flight", "_next", "_take", "failure")

    def __init__(self, flight: Flight, alone: Callable[[], Flight] | None) -> None:
        self._flight = flight
        self._alone = alone
        self._take = flight.take
        self._next = 0
        self._aboard = True
        self.failure: Failure | None = None

    @property
    def flight(self) -> Flight:
        """The flight; another one once this passenger goes alone."""
        return self._flight

    @property
    def leads(self) -> bool:
        """Whether the model was asked for this passenger, and not for another whom it joined."""
        return self._flight.led_by(self)

    @property
    def waits(self) -> bool:
        """Whether this is a request that has had nothing yet."""
        return self._alone is not None and self._next == 0

    async def begun(self) -> None:
        """Returns when the answer has begun or is whole.

        Raises:
            UpstreamError, ApiError: the call failed before that.
        """
        while True:
            flight = self._flight
            if flight.landing is None and flight.target is None:
                await self._changed()
            elif not self._went_alone():
                return

    async def landed(self) -> Landing:
        """The whole answer.

        Raises:
            UpstreamError, ApiError: the call failed.
        """
        while True:
            landing = self._flight.landing
            if landing is None:
                await self._changed()
            elif not self._went_alone():
                return landing

    async def batches(self) -> AsyncIterator[list[Chunk]]:
        """Every chunk from the first one on, as many at a time as have come; ends when the flight has landed.

        Raises:
            UpstreamError, ApiError: the call failed on the way, or a new take goes another way.
        """
        while True:
            await self._caught_up()
            batch = self._flight.chunks_from(self._take, self._next)
            if batch:
                self._next += len(batch)
                yield batch
            elif self._flight.landing is not None:
                return
            else:
                await self._changed()

    async def _caught_up(self) -> None:
        """Moves on to the current take, behind what was had of an older one."""
        while self._take != self._flight.take:
            flight, take = self._flight, self._flight.take
            had = flight.chunks_from(self._take, 0)[: self._next]
            again = flight.chunks_from(take, 0)[: self._next]
            if not all(map(_same, had, again)) or (len(again) < self._next and flight.landing is not None):
                raise UpstreamError("cut", 502, _CUT)
            if len(again) == self._next:
                self._take = take
            else:
                await self._changed()

    async def _changed(self) -> None:
        if self.failure is not None:
            raise self.failure
        await self._flight.changed()

    def _went_alone(self) -> bool:
        """Leaves for a flight of its own when the answer is another's and not for sharing."""
        landing, alone = self._flight.landing, self._alone
        if landing is None or alone is None or self._next or self.leads or shareable(landing.decision):
            return False
        self._flight.left(self)
        self._flight, self._alone = alone(), None
        self._flight.seat(self, leads=True)
        self._take = self._flight.take
        return True

    def leave(self) -> None:
        """Gives up the place; harmless when done twice."""
        if self._aboard:
            self._aboard = False
            self._flight.left(self)


def _same(one: Chunk, other: Chunk) -> bool:
    """Whether two chunks say the same."""
    return _said(one) == _said(other)


def _said(chunk: Chunk) -> Chunk:
    return {name: value for name, value in chunk.items() if name not in _OF_ONE_TAKE}


_CUT: Mapping[str, object] = {
    "error": {
        "message": "The worker that asked the model is gone, and the model's second answer differs.",
        "type": "server_error",
        "param": None,
        "code": "upstream_cut",
    }
}
