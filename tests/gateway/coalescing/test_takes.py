"""What becomes of passengers when another worker's call is lost and made again."""

import asyncio
from typing import Any

import pytest

from gateway.errors import UpstreamError
from gateway.flights import Flight, Flights, Landing, Passenger
from gateway.routes import Target
from policies.decide import Discard, Store
from policies.types import ChatResponse, Choice

TARGET = Target("up", "m", "m")
ANSWER = ChatResponse("id", 1, "m", (Choice(0, {"role": "assistant", "content": "abc"}, "stop"),))


def chunk(text: str, take: int) -> dict[str, Any]:
    return {"id": f"take-{take}", "created": take, "choices": [{"delta": {"content": text}}]}


class Air:
    """A flight that a test flies by hand."""

    def __init__(self) -> None:
        self.flights = Flights(lambda _by: None)
        self.down = asyncio.Event()
        self.first, _ = self.flights.join_or_lead("k", self.work)
        self.flight = self.first.flight
        self.flight.relayed = True

    async def work(self, flight: Flight) -> None:
        del flight
        await self.down.wait()

    def say(self, texts: str, take: int) -> None:
        self.flight.begin(TARGET, {})
        for text in texts:
            self.flight.publish(chunk(text, take))

    def join(self) -> Passenger:
        return self.flights.join_or_lead("k", self.work)[0]

    def land(self) -> None:
        self.flight.land(Landing(ANSWER, Store(1.0)))
        self.down.set()


async def some(passenger: Passenger, count: int) -> list[str]:
    """The next texts, so many at least, on an iterator that is left behind."""
    had: list[str] = []
    async for batch in passenger.batches():
        had += [part["choices"][0]["delta"]["content"] for part in batch]
        if len(had) >= count:
            break
    return had


async def test_a_stream_goes_on_where_the_second_take_says_the_same() -> None:
    air = Air()
    air.say("ab", 1)
    assert await some(air.first, 2) == ["a", "b"]
    air.flight.restart()
    rest = asyncio.create_task(some(air.first, 99))
    await asyncio.sleep(0)
    air.say("abcd", 2)
    air.land()
    assert await rest == ["c", "d"]


@pytest.mark.parametrize("again", ["ax", "a"])
async def test_a_stream_is_cut_where_it_does_not_and_others_get_the_second_take(again: str) -> None:
    air = Air()
    late = air.join()
    air.say("ab", 1)
    assert await some(air.first, 2) == ["a", "b"]
    air.flight.restart()
    air.say(again, 2)
    air.land()
    with pytest.raises(UpstreamError) as raised:
        await some(air.first, 99)
    assert raised.value.reason == "cut"
    assert await some(late, 99) == list(again)


async def test_whole_answers_wait_for_the_second_take() -> None:
    air = Air()
    air.say("ab", 1)
    air.flight.restart()
    waits = asyncio.create_task(air.first.landed())
    await asyncio.sleep(0)
    assert not waits.done()
    air.land()
    assert (await waits).response is ANSWER


async def test_a_failure_is_its_leaders_alone_when_others_wait() -> None:
    air = Air()
    air.flight.relayed = False
    other = air.join()
    error = UpstreamError("cut", 502, {})
    assert air.first.leads
    assert air.flight.hand_over(error)
    with pytest.raises(UpstreamError):
        await air.first.landed()
    air.land()
    assert (await other.landed()).response is ANSWER
    assert other.leads


async def test_nobody_is_handed_what_they_have_begun_to_hear() -> None:
    air = Air()
    air.flight.relayed = False
    other = air.join()
    air.say("ab", 1)
    await some(other, 2)
    assert not air.flight.hand_over(UpstreamError("cut", 502, {}))
    air.land()


async def test_who_waits_for_what_may_not_be_shared_goes_alone() -> None:
    air = Air()
    air.flight.relayed = False
    flown: list[Flight] = []

    async def alone(flight: Flight) -> None:
        flown.append(flight)
        flight.begin(TARGET, {})
        flight.land(Landing(ANSWER, Store(1.0)))

    other = air.flights.join_or_lead("k", air.work, alone)[0]
    air.flight.land(Landing(ANSWER, Discard("refusal")))
    air.down.set()
    assert isinstance((await air.first.landed()).decision, Discard)
    assert isinstance((await other.landed()).decision, Store)
    assert (len(flown), other.leads) == (1, True)
    other.leave()
