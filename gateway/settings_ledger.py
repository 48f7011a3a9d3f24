"""Settings of the ledger."""

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from gateway.settings_cache import Frozen
from policies.ledger import PriceRow

Dollars = Annotated[str, BeforeValidator(str)]
"""A decimal number as text, since a float is none."""


class PriceSettings(Frozen):
    """What a model costs, in dollars per million tokens.

    Attributes:
        input: tokens of prompts.
        output: tokens of answers.
        cache_read: tokens that the provider's prompt cache had; as `input` when absent.
        cache_write_5m: tokens it wrote for less than an hour; as `input` when absent.
        cache_write_1h: tokens it wrote for longer; as `cache_write_5m` when absent.
    """

    input: Dollars
    output: Dollars
    cache_read: Dollars | None = None
    cache_write_5m: Dollars | None = None
    cache_write_1h: Dollars | None = None

    def row(self, model: str) -> PriceRow:
        """As a row of the price table."""
        cached = (self.cache_read, self.cache_write_5m, self.cache_write_1h)
        return PriceRow((model,), self.input, self.output, *cached)

    @model_validator(mode="after")
    def _are_prices(self) -> Self:
        self.row("-").price()
        return self


class LedgerSettings(Frozen):
    """What answers cost and saved; docs/ledger.md says how it is counted.

    Attributes:
        keep_days: sums of older days are deleted.
        feed: whether the latest requests, without their texts, are kept in Redis for people who watch.
        doctor: whether prompts that reach a model are compared with recent ones, to find what breaks prefixes.
        prices: by the provider's name of a model, or a pattern with `*` and `?`; they come before the list prices.
    """

    keep_days: Annotated[int, Field(ge=1)] = 400
    feed: bool = True
    doctor: bool = True
    prices: Mapping[str, PriceSettings] = Field(default_factory=dict)
