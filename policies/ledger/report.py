"""What the sums say, for people: by layer, and what each provider's prompt cache did; pure."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from policies.ledger.money import usd
from policies.ledger.sums import FIGURES

Figures = Mapping[str, int]
"""Sums by the names of FIGURES."""

_NOTHING = dict.fromkeys(FIGURES, 0)


class LayerLine(msgspec.Struct, frozen=True):
    """One layer's share of the work.

    Attributes:
        layer: exact, semantic, coalesced; prefix_device, prefix_ram, prefix_disk (the engine's prefix cache);
            provider_read, provider_write (a provider's prompt cache); fresh (computed), output (said by models).
        requests: answered by it; None where a layer serves parts of requests.
        tokens: that it served, or wrote, or that had to be computed.
        mean_ms: from request to last byte; None where it answers none.
        cost_usd: what its tokens cost; None when no price is known. What an engine with a price read is told with
            `provider_read`.
        saved_usd: what it saved, negative for what writing costs on top; None when no price is known.
    """

    layer: str
    requests: int | None
    tokens: int
    mean_ms: float | None
    cost_usd: str | None
    saved_usd: str | None


class Totals(msgspec.Struct, frozen=True):
    """Everything that the sums say together.

    Attributes:
        errors: requests that ended badly, clients that left among them.
        prompt_tokens, completion_tokens: as clients saw them.
        calls: made to models; untold of them told no usage, so that their tokens and money are not in here.
        call_prompt_tokens, call_completion_tokens: as the models' servers told them.
        cost_usd, saved_usd: of what has a price; None when nothing has.
        unpriced: requests and calls whose model has no price; their tokens count, their money does not.
    """

    requests: int
    errors: int
    prompt_tokens: int
    completion_tokens: int
    mean_ms: float | None
    calls: int
    untold: int
    call_prompt_tokens: int
    call_completion_tokens: int
    cost_usd: str | None
    saved_usd: str | None
    unpriced: int


class CacheUse(msgspec.Struct, frozen=True):
    """What a prompt cache did, in tokens of the calls that told their usage.

    Attributes:
        reads, writes, fresh: add up to the prompts.
        hit_rate: reads of all; None without tokens.
        write_share: writes of what was read or written; None when neither was. Above the break-even share the
            cache costs more than it saves.
        saved_usd: by reads, less what writes cost on top; None when no price is known.
    """

    calls: int
    reads: int
    writes: int
    fresh: int
    hit_rate: float | None
    write_share: float | None
    saved_usd: str | None


def totals(found: Figures) -> Totals:
    """The sums of a whole."""
    requests, calls = found["requests"], found["calls"]
    unpriced = found["unpriced"] + found["calls_unpriced"]
    priced = _priced(found)
    spent = sum(found[f"{part}_pico"] for part in ("fresh", "read", "write", "output"))
    return Totals(
        requests,
        found["errors"],
        found["prompt_tokens"],
        found["completion_tokens"],
        _mean_ms(found["latency_us"], requests),
        calls,
        found["calls_untold"],
        prompt_of(found),
        found["output_tokens"],
        usd(spent) if priced else None,
        usd(found["saved_pico"] + prompt_saved(found)) if priced else None,
        unpriced,
    )


def by_layer(by_key: Mapping[str, Figures]) -> list[LayerLine]:
    """Every layer's line.

    Args:
        by_key: the sums by the key's layer: exact, semantic, coalesced, model.
    """
    answered = [_answering(layer, by_key.get(layer, _NOTHING)) for layer in ("exact", "semantic", "coalesced")]
    called = by_key.get("model", _NOTHING)
    priced = _priced(called)
    tiers = [_tier(tier, called, priced=priced) for tier in ("device", "ram", "disk")]
    written = called["write_5m_tokens"] + called["write_1h_tokens"]
    provider = _part(
        "provider_read", called["read_tokens"], called["read_pico"], called["read_saved_pico"], priced
    )
    wrote = _part("provider_write", written, called["write_pico"], -called["write_extra_pico"], priced)
    fresh = _part("fresh", called["fresh_tokens"], called["fresh_pico"], None, priced)
    output = _part("output", called["output_tokens"], called["output_pico"], None, priced)
    return [*answered, *tiers, provider, wrote, fresh, output]


def cache_use(found: Figures) -> CacheUse:
    """What the prompt caches behind these sums did, the engine's included."""
    reads = sum(found[f"{place}_tokens"] for place in ("device", "ram", "disk", "read"))
    writes = found["write_5m_tokens"] + found["write_1h_tokens"]
    every = reads + writes + found["fresh_tokens"]
    return CacheUse(
        found["calls"],
        reads,
        writes,
        found["fresh_tokens"],
        reads / every if every else None,
        writes / (reads + writes) if reads + writes else None,
        usd(prompt_saved(found)) if _priced(found) else None,
    )


def prompt_of(found: Figures) -> int:
    """Prompt tokens of calls."""
    parts = ("fresh", "device", "ram", "disk", "read", "write_5m", "write_1h")
    return sum(found[f"{part}_tokens"] for part in parts)


def prompt_saved(found: Figures) -> int:
    """What prompt caches saved, less what writing cost on top."""
    tiers = sum(found[f"{place}_saved_pico"] for place in ("device", "ram", "disk", "read"))
    return tiers - found["write_extra_pico"]


def added(every: Iterable[Figures]) -> dict[str, int]:
    """The sum of sums."""
    total = dict(_NOTHING)
    for one in every:
        for name in FIGURES:
            total[name] += one[name]
    return total


def _priced(found: Figures) -> bool:
    """Whether some of the money is known, or there is none to be known."""
    told = found["calls"] - found["calls_untold"]
    answered = found["requests"] - found["errors"] - found["untold"]
    unknown = found["unpriced"] + found["calls_unpriced"]
    return unknown == 0 or told > found["calls_unpriced"] or answered > found["unpriced"]


def _answering(layer: str, found: Figures) -> LayerLine:
    requests, tokens = found["requests"], found["prompt_tokens"] + found["completion_tokens"]
    saved = usd(found["saved_pico"]) if _priced(found) else None
    return LayerLine(layer, requests, tokens, _mean_ms(found["latency_us"], requests), "0", saved)


def _tier(tier: str, called: Figures, *, priced: bool) -> LayerLine:
    tokens, saved = called[f"{tier}_tokens"], called[f"{tier}_saved_pico"]
    known = priced and not (tokens and not saved and called["calls_unpriced"])
    return _part(f"prefix_{tier}", tokens, None, saved, known)


def _part(layer: str, tokens: int, cost: int | None, saved: int | None, priced: bool) -> LayerLine:
    shown: list[Any] = [None if one is None or not priced else usd(one) for one in (cost, saved)]
    return LayerLine(layer, None, tokens, None, *shown)


def _mean_ms(spent_us: int, requests: int) -> float | None:
    return round(spent_us / requests / 1000, 3) if requests else None
