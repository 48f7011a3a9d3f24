"""Flights: one call per key, everybody rides, nobody hurts another, the last one out stops it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.errors import ApiError, UpstreamError
from gateway.flights import Flight, Flights, Landing, Passenger
from gateway.routes import Target
from policies.decide import Store
from policies.types import ChatResponse, Choice

TARGET = Target("up", "m", "m")
ANSWER = ChatResponse("id", 1, "m", (Choice(0, {"role": "assistant", "content": "abc"}, "stop"),))


class Tower:
    """Counts flights in the air, and lets a test drive them."""

    def __init__(self) -> None:
        self.in_the_air = 0
        self.flown = 0
        self.cancelled = 0
        self.flights = Flights(self.changed)
        self.go = asyncio.Event()

    def changed(self, by: int) -> None:
        self.in_the_air += by

    def work(self, chunks: int = 3, failure: Exception | None = None) -> Callable[[Flight], Awaitable[None]]:
        async def fly(flight: Flight) -> None:
            self.flown += 1
            try:
                flight.begin(TARGET, {})
                for number in range(chunks):
                    flight.publish({"n": number})
                await self.go.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            if isinstance(failure, UpstreamError):
                flight.fail(failure)
            elif failure is not None:
                raise failure
            else:
                flight.land(Landing(ANSWER, Store(1.0)))

        return fly


async def ride(passenger: Passenger) -> list[Any]:
    return [chunk async for batch in passenger.batches() for chunk in batch]


async def test_one_call_serves_all_who_ask_for_the_same_key() -> None:
    tower = Tower()
    places = [tower.flights.join_or_lead("k", tower.work()) for _ in range(50)]
    assert [leads for _, leads in places] == [True, *[False] * 49]
    tower.go.set()
    rides = await asyncio.gather(*(ride(passenger) for passenger, _ in places))
    assert all(chunks == [{"n": 0}, {"n": 1}, {"n": 2}] for chunks in rides)
    assert (tower.flown, tower.in_the_air, len(tower.flights)) == (1, 0, 0)


async def test_other_keys_and_no_key_fly_alone() -> None:
    tower = Tower()
    for key in ("a", "b", None, None):
        _, leads = tower.flights.join_or_lead(key, tower.work())
        assert leads
    await asyncio.sleep(0)
    assert tower.flown == 4
    assert len(tower.flights) == 2


async def test_a_late_passenger_gets_everything_from_the_first_chunk() -> None:
    tower = Tower()
    first, _ = tower.flights.join_or_lead("k", tower.work())
    await first.begun()
    late, leads = tower.flights.join_or_lead("k", tower.work())
    tower.go.set()
    assert not leads
    assert await ride(late) == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert (await first.landed()).response is ANSWER


async def test_the_leader_may_leave_while_others_ride_on() -> None:
    tower = Tower()
    leader, _ = tower.flights.join_or_lead("k", tower.work())
    follower, _ = tower.flights.join_or_lead("k", tower.work())
    await follower.begun()
    leader.leave()
    leader.leave()
    tower.go.set()
    assert (await follower.landed()).response is ANSWER
    assert tower.cancelled == 0


async def test_the_last_one_out_stops_the_call_and_the_next_one_starts_anew() -> None:
    tower = Tower()
    passengers = [tower.flights.join_or_lead("k", tower.work())[0] for _ in range(3)]
    await passengers[0].begun()
    for passenger in passengers:
        passenger.leave()
    assert len(tower.flights) == 0
    again, leads = tower.flights.join_or_lead("k", tower.work())
    await again.begun()
    assert leads
    assert (tower.cancelled, tower.flown, tower.in_the_air) == (1, 2, 1)
    again.leave()
    await asyncio.sleep(0.01)
    assert (tower.cancelled, tower.in_the_air) == (2, 0)


async def test_a_failure_reaches_every_passenger_and_nobody_joins_it() -> None:
    tower = Tower()
    error = UpstreamError("cut", 502, {"error": {}})
    places = [tower.flights.join_or_lead("k", tower.work(failure=error))[0] for _ in range(3)]
    await places[0].begun()
    tower.go.set()
    results = await asyncio.gather(*(place.landed() for place in places), return_exceptions=True)
    assert results == [error] * 3
    assert tower.flights.join_or_lead("k", tower.work())[1]


async def test_a_bug_in_the_call_is_a_native_error_not_a_hang() -> None:
    tower = Tower()
    passenger, _ = tower.flights.join_or_lead("k", tower.work(failure=RuntimeError("bug")))
    flight_task = passenger.flight._task
    tower.go.set()
    with pytest.raises(ApiError) as raised:
        await passenger.landed()
    assert raised.value.status == 500
    assert flight_task is not None
    with pytest.raises(RuntimeError):
        await flight_task


async def test_chunks_before_a_failure_are_delivered_first() -> None:
    tower = Tower()
    passenger, _ = tower.flights.join_or_lead("k", tower.work(failure=UpstreamError("cut", 502, {})))
    tower.go.set()
    seen: list[Any] = []

    async def watch() -> None:
        async for batch in passenger.batches():
            seen.extend(batch)

    with pytest.raises(UpstreamError):
        await watch()
    assert seen == [{"n": 0}, {"n": 1}, {"n": 2}]
