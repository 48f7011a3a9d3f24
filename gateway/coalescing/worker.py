"""What a flight of this worker does: asks the model, and where others may wait elsewhere, more than that."""

from dataclasses import dataclass
from typing import Protocol

from gateway.errors import ApiError, UpstreamError
from gateway.flights import Flight, FlightName, Work
from gateway.forward import Forwarder
from gateway.job import Job
from policies.leases import hands_over


@dataclass(frozen=True, slots=True)
class Shared:
    """A model call that others may share.

    Attributes:
        job: the call, as the first who asks in this worker makes it.
        name: under what others share it.
        seen: beginning of the stored value that the look-up brought, which may not be served; None when Redis did
            not answer, so that it is not asked again.
    """

    job: Job
    name: FlightName
    seen: bytes | None


class Coalescer(Protocol):
    """Makes a worker's flight, alone or with other workers."""

    async def fly(self, flight: Flight, shared: Shared) -> None:
        """Lands or fails the flight."""
        ...

    async def refresh(self, flight: Flight, shared: Shared) -> None:
        """The same for a refresh that nobody waits for; it is left to whichever worker began first."""
        ...

    async def close(self) -> None:
        """Stops listening."""
        ...


class OneWorker:
    """Coalesces inside this worker alone."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder

    async def fly(self, flight: Flight, shared: Shared) -> None:
        """See Coalescer."""
        await fly_here(self._forwarder, flight, shared.job)

    async def refresh(self, flight: Flight, shared: Shared) -> None:
        """See Coalescer."""
        await self._forwarder.fly(flight, shared.job)

    async def close(self) -> None:
        """See Coalescer; there is nothing to stop."""


def works(coalescer: Coalescer, forwarder: Forwarder, job: Job, shared: Shared | None) -> tuple[Work, Work]:
    """What makes a request's call, together with others where they may share it, and what makes it alone."""

    async def alone(flight: Flight) -> None:
        await forwarder.fly(flight, job)

    async def together(flight: Flight) -> None:
        assert shared is not None  # noqa: S101  (narrowing: not called else)
        await coalescer.fly(flight, shared)

    return (alone if shared is None else together), alone


async def fly_here(forwarder: Forwarder, flight: Flight, job: Job, tries: int = 0) -> None:
    """Makes the call for the passengers of this worker; when it fails early, once more for those who wait."""
    while True:
        tries += 1
        try:
            landing = await forwarder.call(flight, job)
        except (UpstreamError, ApiError) as error:
            if handed_over(flight, error, tries):
                continue
            flight.fail(error)
        else:
            flight.land(landing)
        return


def handed_over(flight: Flight, failure: UpstreamError | ApiError, tries: int) -> bool:
    """Whether the call is to be made again for those who wait; its leader has been told that it failed then."""
    if not isinstance(failure, UpstreamError) or flight.target is not None:
        return False
    return hands_over(failure.reason, failure.status, tries) and flight.hand_over(failure)
