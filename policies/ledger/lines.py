"""One line of the ledger: what a request, or a call to a model, adds to the sums."""

from typing import NamedTuple

from policies.ledger.prices import Price, worth
from policies.ledger.usage import Split

LAYERS = ("exact", "semantic", "coalesced", "model", "none")
SAVING = frozenset({"exact", "semantic", "coalesced"})
"""Layers that answer without asking a model."""


class Worth(NamedTuple):
    """What an answer is worth.

    Attributes:
        split: of its usage.
        pico: what asking the model again would cost at least; None when no price is known.
    """

    split: Split
    pico: int | None


OK = 200
_MOST_US = 10**12


def answer_line(layer: str, status: int, worth: Worth | None, latency_us: int, saved_us: int) -> tuple[int, ...]:
    """What an answered request adds, in the order of ANSWERED.

    Args:
        layer: who answered.
        status: as the client was told; 499 when it left.
        worth: of the usage that the client saw; None when it saw none.
        latency_us: to the last byte, in microseconds.
        saved_us: how much longer the model took when it gave this answer.
    """
    bad = 0 if status == OK else 1
    latency_us, saved_us = min(latency_us, _MOST_US), min(max(0, saved_us), _MOST_US)
    if worth is None:
        return (1, bad, 1 - bad, 0, 0, latency_us, saved_us, 0, 0)
    split, pico = worth
    prompt = sum(split) - split.output
    if pico is None:
        return (1, bad, 0, prompt, split.output, latency_us, saved_us, 0, 1)
    return (1, bad, 0, prompt, split.output, latency_us, saved_us, pico if layer in SAVING else 0, 0)


def worth_of(split: Split | None, price: Price | None) -> Worth | None:
    """The worth of an answer with this usage; None without one."""
    if split is None:
        return None
    return Worth(split, None if price is None else worth(split, price))


def call_line(split: Split | None, price: Price | None, *, call_us: int) -> tuple[int, ...]:
    """What a call to a model adds, in the order of CALLED.

    Args:
        split: of the usage that the model's server told; None when it told none, as when the call broke off.
        price: of the model; None when it is not known.
        call_us: how long it took, in microseconds.
    """
    call_us = min(call_us, _MOST_US)
    if split is None:
        return (1, 1, 0, call_us)
    head = (1, 0, int(price is None), call_us, *split)
    if price is None:
        return head
    price = price.at(split.prompt)
    less = price.input - price.read
    wrote = split.write_5m * price.write_5m + split.write_1h * price.write_1h
    return (
        *head,
        split.fresh * price.input,
        split.cached * price.read,
        wrote,
        split.output * price.output,
        split.device * less,
        split.ram * less,
        split.disk * less,
        split.read * less,
        wrote - split.written * price.input,
    )
