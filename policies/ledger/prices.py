"""Prices of models, and what an answer costs by them."""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

import msgspec

from policies.ledger.money import pico_per_token
from policies.ledger.usage import Split

_MOST_REMEMBERED = 1_000
_DATED = re.compile(r"(?:[-@:](?:\d{4}-?\d\d-?\d\d|latest|preview(?:-\d\d-\d{2,4})?|\d{3}|v\d+(?::\d+)?))+$")


class Price(msgspec.Struct, frozen=True):
    """Picodollars per token.

    Attributes:
        input: of a prompt's token that no cache had.
        output: of an answer's.
        read: of one that the provider's prompt cache had.
        write_5m, write_1h: of one that it wrote, for less than an hour and for longer.
        long: the price of the whole request when its prompt has more than `long_from` tokens.
    """

    input: int
    output: int
    read: int
    write_5m: int
    write_1h: int
    long_from: int = 0
    long: "Price | None" = None

    def at(self, prompt_tokens: int) -> "Price":
        """What holds for a prompt of this length."""
        return self.long if self.long is not None and prompt_tokens > self.long_from else self


class PriceRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices as people write them: dollars per million tokens, as decimal text.

    Attributes:
        models: names, or patterns with `*` and `?`; a date or `-latest` behind a name needs no pattern.
        cache_read, cache_write_5m, cache_write_1h: the input's price where they are absent.
        long_from, long: see Price; `long` holds the same five prices, in this order.
        smaller: the model to try when a cheaper one might do.
        source: where the price was read.
        as_of: when, as YYYY-MM.
    """

    models: tuple[str, ...]
    input: str
    output: str
    cache_read: str | None = None
    cache_write_5m: str | None = None
    cache_write_1h: str | None = None
    long_from: int = 0
    long: tuple[str, str, str, str, str] | None = None
    smaller: str | None = None
    source: str = "settings"
    as_of: str = ""

    def price(self) -> Price:
        """In picodollars.

        Raises:
            ValueError: see `pico_per_token`.
        """
        written_5m = self.cache_write_5m or self.input
        usual = _price(
            self.input, self.output, self.cache_read or self.input, written_5m, self.cache_write_1h or written_5m
        )
        if self.long is None:
            return usual
        return msgspec.structs.replace(usual, long_from=self.long_from, long=_price(*self.long))


def _price(read_in: str, said: str, cached: str, written_5m: str, written_1h: str) -> Price:
    amounts = (pico_per_token(one) for one in (read_in, said, cached, written_5m, written_1h))
    plain, output, read, write_5m, write_1h = amounts
    return Price(plain, output, read, write_5m, write_1h)


def read_price_rows(raw: bytes) -> list[PriceRow]:
    """The rows of a price table in JSON.

    Raises:
        msgspec.MsgspecError: it is none.
    """
    return msgspec.json.decode(raw, type=list[PriceRow])


class PriceTable:
    """Finds the price of a model; of two rows that fit the earlier one holds, a plain name before any pattern."""

    def __init__(self, rows: Iterable[PriceRow]) -> None:
        self.rows = tuple(rows)
        self._named: dict[str, tuple[PriceRow, Price]] = {}
        self._patterns: list[tuple[str, tuple[PriceRow, Price]]] = []
        self._known: dict[str, tuple[PriceRow, Price] | None] = {}
        for row in self.rows:
            priced = row, row.price()
            for model in row.models:
                if "*" in model or "?" in model:
                    self._patterns.append((model.lower(), priced))
                else:
                    self._named.setdefault(model.lower(), priced)

    def of(self, model: str) -> Price | None:
        """The price of a model, by its provider's name for it; None when it is not known."""
        found = self._found(model)
        return None if found is None else found[1]

    def row(self, model: str) -> PriceRow | None:
        """The row that the price is from."""
        found = self._found(model)
        return None if found is None else found[0]

    def _found(self, model: str) -> tuple[PriceRow, Price] | None:
        try:
            return self._known[model]
        except KeyError:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            found = self._known[model] = self._sought(model.lower())
            return found

    def _sought(self, model: str) -> tuple[PriceRow, Price] | None:
        bare = model.rpartition("/")[2]
        for name in dict.fromkeys((model, bare, _DATED.sub("", bare))):
            if name in self._named:
                return self._named[name]
        fits = (priced for pattern, priced in self._patterns if fnmatchcase(model, pattern))
        return next(fits, None) or next(
            (priced for pattern, priced in self._patterns if fnmatchcase(bare, pattern)), None
        )


def cost(split: Split, price: Price) -> int:
    """What an answer cost, in picodollars."""
    price = price.at(split.prompt)
    return (
        split.fresh * price.input
        + split.cached * price.read
        + split.write_5m * price.write_5m
        + split.write_1h * price.write_1h
        + split.output * price.output
    )


def worth(split: Split, price: Price) -> int:
    """What asking the model again would have cost at least: what it wrote to a cache would be read by now."""
    warm = Split(split.fresh, 0, 0, 0, split.cached + split.written, 0, 0, split.output)
    return min(cost(warm, price), cost(split, price))
