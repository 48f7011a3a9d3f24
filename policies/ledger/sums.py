"""The ledger's sums: whole numbers by key, so that any split over workers and flushes adds up to the same."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

ANSWERED = (
    "requests",
    "errors",
    "untold",
    "prompt_tokens",
    "completion_tokens",
    "latency_us",
    "saved_us",
    "saved_pico",
    "unpriced",
)
"""Figures of what clients were given: requests, those that ended badly, answers whose usage nobody told, tokens as
clients saw them, time, time and money that a stored answer saved, and requests whose money is not known."""

CALLED = (
    "calls",
    "calls_untold",
    "calls_unpriced",
    "call_us",
    "fresh_tokens",
    "device_tokens",
    "ram_tokens",
    "disk_tokens",
    "read_tokens",
    "write_5m_tokens",
    "write_1h_tokens",
    "output_tokens",
    "fresh_pico",
    "read_pico",
    "write_pico",
    "output_pico",
    "device_saved_pico",
    "ram_saved_pico",
    "disk_saved_pico",
    "read_saved_pico",
    "write_extra_pico",
)
"""Figures of what models were asked: calls whose answer began, those whose usage nobody told or whose price is not
known, time, tokens by where they came from, what they cost, what reading saved, and what writing cost on top."""

FIGURES = ANSWERED + CALLED
_FIRST_CALLED = len(ANSWERED)

Tally = list[int]
"""One value for each of FIGURES."""


class Key(NamedTuple):
    """What a sum is of.

    Attributes:
        day: since 1970-01-01, UTC.
        tenant_id, route, provider, model: `-` where there is none; `model` is the provider's name for it.
        layer: who answered: exact, semantic, coalesced, model, or none for a request that nobody answered. What
            models were asked is always under `model`.
    """

    day: int
    tenant_id: str
    route: str
    provider: str
    model: str
    layer: str


Sums = dict[Key, Tally]


def add_answer(sums: Sums, key: Key, figures: Iterable[int]) -> None:
    """Adds values of ANSWERED."""
    _add(sums, key, figures, 0)


def add_call(sums: Sums, key: Key, figures: Iterable[int]) -> None:
    """Adds values of CALLED."""
    _add(sums, key, figures, _FIRST_CALLED)


def _add(sums: Sums, key: Key, figures: Iterable[int], at: int) -> None:
    tally = sums.get(key)
    if tally is None:
        tally = sums[key] = [0] * len(FIGURES)
    for value in figures:
        if value:
            tally[at] += value
        at += 1


def merge(into: Sums, more: Mapping[Key, Iterable[int]]) -> None:
    """Adds sums to sums."""
    for key, figures in more.items():
        _add(into, key, figures, 0)


def named(tally: Iterable[int]) -> dict[str, int]:
    """The figures by name."""
    return dict(zip(FIGURES, tally, strict=True))
