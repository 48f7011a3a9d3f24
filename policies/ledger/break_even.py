"""When writing to a provider's prompt cache pays: reads per write, write share, questions an hour."""

import math
from typing import Any, NamedTuple

import msgspec

from policies.ledger.money import usd
from policies.ledger.prices import Price

HOUR_S = 3600
LIVES_S = {"5m": 300, "1h": HOUR_S}
"""How long what was written stays, counted from its latest use."""


class BreakEven(msgspec.Struct, frozen=True):
    """What a write costs and what it takes to pay for it.

    Attributes:
        fresh_pico, write_pico, read_pico: the prefix without a cache, written, and read.
        reads_to_pay: reads of one write, within its life, from which on it costs no more; None when never.
        most_write_share: the share of writes, of all writes and reads, at which the cache costs as much as none.
        questions_an_hour: from which on that share is kept, when questions come at random; None when never.
    """

    life_s: int
    tokens: int
    fresh_pico: int
    write_pico: int
    read_pico: int
    reads_to_pay: int | None
    most_write_share: float
    questions_an_hour: float | None


class Hour(NamedTuple):
    """An hour of questions that begin with the same prefix; output and the rest of the prompts are not in it.

    Attributes:
        writes, reads: of the prefix; expected values where questions come at random.
        with_pico, without_pico: what the prefix costs with a cache, and without.
    """

    writes: float
    reads: float
    with_pico: int
    without_pico: int

    @property
    def less(self) -> float:
        """The share of the money that the cache saves; negative when it costs more."""
        return 1.0 - self.with_pico / self.without_pico if self.without_pico else 0.0


def break_even(price: Price, tokens: int, life_s: int) -> BreakEven:
    """What it takes for a cached prefix to pay.

    Args:
        price: of the model.
        tokens: of the prefix.
        life_s: 300 or 3600.
    """
    price = price.at(tokens)
    write = _write(price, life_s)
    extra, less = write - price.input, price.input - price.read
    share = _most_share(price, write)
    return BreakEven(
        life_s,
        tokens,
        tokens * price.input,
        tokens * write,
        tokens * price.read,
        max(0, -(-extra // less)) if less > 0 else (0 if extra <= 0 else None),
        share,
        _questions_for(share, life_s),
    )


def evenly(price: Price, tokens: int, questions: int, life_s: int) -> Hour:
    """An hour in which so many questions come at equal distances; the first one writes."""
    kept = questions > 0 and HOUR_S / questions <= life_s
    writes = min(1, questions) if kept else questions
    return _hour(price.at(tokens), tokens, writes, questions - writes, life_s)


def at_random(price: Price, tokens: int, questions: int, life_s: int) -> Hour:
    """The same when they come independently of each other: a gap longer than the life costs another write."""
    if questions <= 0:
        return _hour(price.at(tokens), tokens, 0, 0, life_s)
    lapse = math.exp(-questions / HOUR_S * life_s)
    writes = 1 + (questions - 1) * lapse
    return _hour(price.at(tokens), tokens, writes, questions - writes, life_s)


def told(price: Price, tokens: int, questions: int, life_s: int) -> dict[str, Any]:
    """Everything above for scripts: money in dollars, an hour of questions at equal distances and at random."""
    found = break_even(price, tokens, life_s)
    hours = {"evenly": evenly, "at_random": at_random}
    return {
        "fresh_usd": usd(found.fresh_pico),
        "write_usd": usd(found.write_pico),
        "read_usd": usd(found.read_pico),
        "reads_to_pay": found.reads_to_pay,
        "most_write_share": found.most_write_share,
        "questions_an_hour": found.questions_an_hour,
        "an_hour": {name: _told_hour(of(price, tokens, questions, life_s)) for name, of in hours.items()},
    }


def _told_hour(hour: Hour) -> dict[str, Any]:
    return {
        "writes": hour.writes,
        "reads": hour.reads,
        "with_usd": usd(hour.with_pico),
        "without_usd": usd(hour.without_pico),
        "less": hour.less,
    }


def _hour(price: Price, tokens: int, writes: float, reads: float, life_s: int) -> Hour:
    paid = round(tokens * (writes * _write(price, life_s) + reads * price.read))
    return Hour(writes, reads, paid, round((writes + reads) * tokens * price.input))


def _write(price: Price, life_s: int) -> int:
    return price.write_1h if life_s >= HOUR_S else price.write_5m


def _most_share(price: Price, write: int) -> float:
    if write <= price.input:
        return 1.0
    return max(0.0, (price.input - price.read) / (write - price.read))


def _questions_for(share: float, life_s: int) -> float | None:
    if share >= 1:
        return 0.0
    return -math.log(share) * HOUR_S / life_s if share > 0 else None
