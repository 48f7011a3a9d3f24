"""Flights: one model call per key at a time; everybody who asks meanwhile rides along.

A flight's key holds the purge sequence, so that a request that begins after a purge never joins a call that began
before it.
"""

from collections.abc import Callable, Hashable

from gateway.flight import Elsewhere, Failure, Flight, FlightName, Landing, Passenger, Work

__all__ = ["Elsewhere", "Failure", "Flight", "FlightName", "Flights", "Landing", "Passenger", "Work"]


class Flights:
    """The flights of this worker by key.

    Args:
        changed: told how many flights more or less there are.
        alone: told when a passenger goes alone.
    """

    def __init__(self, changed: Callable[[int], None], alone: Callable[[], None] = lambda: None) -> None:
        self._flights: dict[Hashable, Flight] = {}
        self._changed = changed
        self._went_alone = alone

    def join_or_lead(self, key: Hashable | None, work: Work, alone: Work | None = None) -> tuple[Passenger, bool]:
        """A place on the flight of this key, and whether this request leads it.

        Args:
            key: None for a call that nobody may share.
            work: called for the leader: makes the call and lands or fails the flight.
            alone: makes the same call for this request alone, should the answer not be for sharing; `work` when
                absent.
        """
        by_itself = alone or work
        running = None if key is None else self._flights.get(key)
        if running is not None:
            return running.board(lambda: self._lone(by_itself)), False
        flight = self._new(key)
        passenger = flight.board(lambda: self._lone(by_itself), leads=True)
        flight.start(work)
        return passenger, True

    def _lone(self, work: Work) -> Flight:
        self._went_alone()
        flight = self._new(None)
        flight.start(work)
        return flight

    def _new(self, key: Hashable | None) -> Flight:
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
        return flight

    def running(self, key: Hashable) -> bool:
        """Whether a flight of this key can be joined."""
        return key in self._flights

    def __len__(self) -> int:
        """How many flights can be joined."""
        return len(self._flights)
