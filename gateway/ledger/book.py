"""One worker's sums since they were last taken; a request costs a few additions here, and nothing else."""

from collections.abc import Callable

from gateway.ledger.lines import Answered, Called, FeedLine
from gateway.telemetry.metrics import Metrics
from policies.ledger import (
    SAVING,
    Key,
    Price,
    PriceTable,
    Sums,
    Worth,
    add_answer,
    add_call,
    answer_line,
    call_line,
    cost,
    split,
    worth_of,
)
from policies.types import Json

MOST_KEYS = 10_000
"""Sums kept while the database is away; what comes on top is counted without its tenant, route and model."""

_DAY_S = 86_400
_US = 1_000_000
_MOST_CHARS = 200
_MOST_PLACES = 10_000
_MOST_WORTHS = 1_000
_NOBODY = "-"
_LAYERS = {"flight": "coalesced"}

Place = tuple[str, str, str, Price | None, bool]
"""Route, provider and model as they are stored, the model's price, and whether the provider is our own engine."""


class Ledger:
    """Adds lines up.

    Args:
        prices: of models.
        engines: names of providers whose prefix cache is one's own.
        metrics: told what was spent and saved.
        feed: given each answered request; returns at once.
        now_s: seconds since the epoch.
    """

    def __init__(
        self,
        prices: PriceTable,
        engines: frozenset[str],
        metrics: Metrics,
        feed: Callable[[FeedLine], None] | None,
        now_s: Callable[[], float],
    ) -> None:
        self.prices = prices
        self.engines = engines
        self._metrics = metrics
        self._feed = feed
        self._now_s = now_s
        self._sums: Sums = {}
        self._places: dict[tuple[str, str, str], Place] = {}
        self._worths: dict[int, tuple[Json, Place, Worth]] = {}

    def answered(self, answer: Answered) -> None:
        """A request was answered."""
        now_s = self._now_s()
        layer = _LAYERS.get(answer.source, answer.source)
        place = self._place(answer.route, answer.provider, answer.model)
        saves = layer in SAVING
        worth = self._worth(answer.usage, place, again=saves)
        latency_us = int(answer.latency_s * _US)
        saved_us = int(answer.took_s * _US) - latency_us if answer.took_s else 0
        key = Key(int(now_s // _DAY_S), answer.tenant_id, place[0], place[1], place[2], layer)
        if len(self._sums) >= MOST_KEYS:
            key = self._room(key)
        add_answer(self._sums, key, answer_line(layer, answer.status, worth, latency_us, saved_us))
        if saves and worth is not None and worth.pico:
            self._metrics.saved(layer, worth.pico)
        if self._feed is not None:
            self._feed(FeedLine(now_s, answer, layer, worth, place[3]))

    def called(self, call: Called) -> None:
        """A model's answer, or what there is of it, came in."""
        route, provider, model, price, engine = self._place(call.route, call.provider, call.model)
        parts = split(call.usage, engine=engine)
        key = Key(int(self._now_s() // _DAY_S), call.tenant_id, route, provider, model, "model")
        add_call(self._sums, self._room(key), call_line(parts, price, call_us=int(call.took_s * _US)))
        if parts is not None:
            self._metrics.called(provider, call.label, parts)
            if price is not None:
                self._metrics.spent(provider, call.label, cost(parts, price))

    def _worth(self, usage: Json | None, place: Place, *, again: bool) -> Worth | None:
        """What an answer of this usage is worth; that of a stored one is remembered, as it is served again."""
        if usage is None:
            return None
        known = self._worths.get(id(usage)) if again else None
        if known is not None and known[0] is usage and known[1] is place:
            return known[2]
        worth = worth_of(split(usage, engine=place[4]), place[3])
        if again and worth is not None:
            if len(self._worths) >= _MOST_WORTHS:
                self._worths.clear()
            self._worths[id(usage)] = (usage, place, worth)
        return worth

    def take(self) -> Sums:
        """What was added since it was last taken; the caller keeps it from now on."""
        sums, self._sums = self._sums, {}
        return sums

    def _place(self, route: str, provider: str, model: str) -> Place:
        named = (route, provider, model)
        place = self._places.get(named)
        if place is None:
            if len(self._places) >= _MOST_PLACES:
                self._places.clear()
            price = self.prices.of(model)
            stored = _storable(route), _storable(provider), _storable(model)
            place = self._places[named] = (*stored, price, provider in self.engines)
        return place

    def _room(self, key: Key) -> Key:
        if len(self._sums) < MOST_KEYS or key in self._sums:
            return key
        self._metrics.fault("ledger", "overflow")
        return Key(key.day, _NOBODY, _NOBODY, _NOBODY, _NOBODY, key.layer)


def _storable(name: str) -> str:
    """A name as both databases can hold it; a client may choose that of a model where any is let through."""
    return name[:_MOST_CHARS].replace("\x00", "?").encode("utf-8", "replace").decode()


def spent_and_saved(line: FeedLine) -> tuple[int, int] | None:
    """What an answer cost and what it saved, in picodollars; None when no price is known."""
    worth, price = line.worth, line.price
    if worth is None or worth.pico is None or price is None:
        return None
    if line.layer in SAVING:
        return 0, worth.pico
    price = price.at(worth.split.prompt)
    return cost(worth.split, price), worth.split.cached * (price.input - price.read)
