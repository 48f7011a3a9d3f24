"""Which lever pays for this traffic: what each saved, and between what bounds it might still save; pure.

A bound is only given where something was counted. What nobody has counted is unknown, and said to be.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from policies.intervals import Interval, wilson
from policies.ledger.money import usd
from policies.ledger.prices import PriceTable
from policies.ledger.report import Figures, added, prompt_of


class Range(NamedTuple):
    """Bounds of what is not known more exactly."""

    low: int
    high: int


class Observed(NamedTuple):
    """What a layer in mode observe counted over the same time.

    Attributes:
        lookups: requests that asked it.
        would: of those, the ones it had an answer for and did not serve.
        tokens: of these answers, prompts included.
    """

    lookups: int
    would: int
    tokens: int


class Traffic(msgspec.Struct, frozen=True):
    """What the levers are judged by, all of the same days.

    Attributes:
        layers: the sums of answers by layer.
        calls: the sums of calls by provider and model.
        engines: providers whose prefix cache is one's own.
        observed: by layer.
        lost: share of prompt tokens that volatile fields keep from being cached, where a prefix doctor counted.
    """

    layers: Mapping[str, Figures]
    calls: Mapping[tuple[str, str], Figures]
    engines: frozenset[str] = frozenset()
    observed: Mapping[str, Observed] = {}
    lost: Interval | None = None


class Lever(msgspec.Struct, frozen=True):
    """One way to spend less.

    Attributes:
        saved_tokens, saved_pico: what it saved; money is None where no price is known.
        more_tokens, more_pico: between what bounds it might have saved more; None is unknown.
        basis: what the bounds rest on.
    """

    name: str
    saved_tokens: int
    saved_pico: int | None
    more_tokens: Range | None
    more_pico: Range | None
    basis: str

    def as_json(self) -> dict[str, object]:
        """For scripts: money in dollars, unknown bounds as null."""
        more = self.more_pico
        return {
            "name": self.name,
            "saved_tokens": self.saved_tokens,
            "saved_usd": None if self.saved_pico is None else usd(self.saved_pico),
            "more_tokens": None if self.more_tokens is None else list(self.more_tokens),
            "more_usd": None if more is None else [usd(more.low), usd(more.high)],
            "basis": self.basis,
        }


def levers(traffic: Traffic, prices: PriceTable) -> list[Lever]:
    """Every lever, the one that saved and surely saves most money first, then by what it might save at best."""
    own = {name: one for name, one in traffic.calls.items() if name[0] in traffic.engines}
    foreign = {name: one for name, one in traffic.calls.items() if name[0] not in traffic.engines}
    found = [
        _layer("exact", traffic),
        _layer("semantic", traffic),
        _coalescing(traffic),
        _prompt_cache("provider prompt cache and prompt layout", foreign, prices, traffic.lost),
        _prompt_cache("engine prefix cache", own, prices, traffic.lost),
        _smaller(traffic.calls, prices),
    ]
    return sorted(found, key=_rank, reverse=True)


def _rank(lever: Lever) -> tuple[int, int, int]:
    more = lever.more_pico or Range(0, 0)
    tokens = lever.saved_tokens + (0 if lever.more_tokens is None else lever.more_tokens.low)
    return (lever.saved_pico or 0) + more.low, more.high, tokens


def _layer(name: str, traffic: Traffic) -> Lever:
    found = traffic.layers.get(name)
    tokens, saved = _answered(found)
    observed = traffic.observed.get(name)
    if observed is None or observed.lookups <= 0:
        return Lever(name, tokens, saved, None, None, 'nobody observed it: set mode = "observe" to count')
    bounds = wilson(observed.would / observed.lookups, observed.lookups)
    mean_tokens = observed.tokens / observed.would if observed.would else 0.0
    more = Range(
        int(bounds.low * observed.lookups * mean_tokens), round(bounds.high * observed.lookups * mean_tokens)
    )
    rate = _pico_per_token(traffic.calls)
    money = None if rate is None else Range(int(more.low * rate), round(more.high * rate))
    basis = f"{observed.would} of {observed.lookups} observed requests, 95 % interval"
    if name == "semantic":
        basis += "; less what its error budget keeps from being served"
        more, money = Range(0, more.high), None if money is None else Range(0, money.high)
    return Lever(name, tokens, saved, more, money, basis)


def _coalescing(traffic: Traffic) -> Lever:
    tokens, saved = _answered(traffic.layers.get("coalesced"))
    return Lever("coalescing", tokens, saved, None, None, "always on; what nobody may share is not counted")


def _answered(found: Figures | None) -> tuple[int, int | None]:
    if found is None:
        return 0, 0
    tokens = found["prompt_tokens"] + found["completion_tokens"]
    unknown = found["unpriced"] > 0 and found["unpriced"] >= found["requests"] - found["errors"] - found["untold"]
    return tokens, None if unknown else found["saved_pico"]


def _pico_per_token(calls: Mapping[tuple[str, str], Figures]) -> float | None:
    """What a token of the priced calls cost on average, prompts and answers together."""
    priced = [found for found in calls.values() if not found["calls_unpriced"] and found["calls"]]
    tokens = sum(prompt_of(found) + found["output_tokens"] for found in priced)
    return sum(_spent(found) for found in priced) / tokens if tokens else None


def _spent(found: Figures) -> int:
    return sum(found[f"{part}_pico"] for part in ("fresh", "read", "write", "output"))


def _prompt_cache(
    name: str, calls: Mapping[tuple[str, str], Figures], prices: PriceTable, lost: Interval | None
) -> Lever:
    total = added(calls.values())
    read = sum(total[f"{place}_tokens"] for place in ("device", "ram", "disk", "read"))
    saved = sum(total[f"{place}_saved_pico"] for place in ("device", "ram", "disk", "read"))
    computed = total["fresh_tokens"] + total["write_5m_tokens"] + total["write_1h_tokens"]
    more, basis = Range(0, computed), "at best every prompt token that was computed; the prefix doctor narrows it"
    if lost is not None:
        prompts = prompt_of(total)
        more = Range(min(computed, int(lost.low * prompts)), min(computed, round(lost.high * prompts)))
        basis = "what the prefix doctor saw being lost, 95 % interval"
    price_less = [
        (found["fresh_tokens"], price.input - price.read)
        for (_, model), found in calls.items()
        if (price := prices.of(model)) is not None
    ]
    if not price_less:
        return Lever(name, read, None if read else 0, more, None, f"{basis}; no price is known")
    best = sum(tokens * less for tokens, less in price_less)
    money = Range(0, best)
    if lost is not None and computed:
        money = Range(best * more.low // computed, best * more.high // computed)
    return Lever(name, read, saved - total["write_extra_pico"], more, money, basis)


def _smaller(calls: Mapping[tuple[str, str], Figures], prices: PriceTable) -> Lever:
    """What the same tokens would have cost at the next smaller model, which may answer worse."""
    best, named = 0, []
    for (_, model), found in calls.items():
        row = prices.row(model)
        price = None if row is None or row.smaller is None else prices.of(row.smaller)
        if row is None or price is None:
            continue
        cached = sum(found[f"{place}_tokens"] for place in ("device", "ram", "disk", "read"))
        cheaper = (
            found["fresh_tokens"] * price.input
            + cached * price.read
            + found["write_5m_tokens"] * price.write_5m
            + found["write_1h_tokens"] * price.write_1h
            + found["output_tokens"] * price.output
        )
        best += max(0, _spent(found) - cheaper)
        named.append(f"{model} → {row.smaller}")
    if not named:
        return Lever("smaller model", 0, 0, None, None, "no smaller model is known for what was asked")
    basis = f"{', '.join(sorted(named)[:3])} at best; nobody compared the answers"
    return Lever("smaller model", 0, 0, Range(0, 0), Range(0, best), basis)
