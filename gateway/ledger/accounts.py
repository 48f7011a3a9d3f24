"""What people ask the ledger: sums by whatever they like, what prompt caches did, and which lever pays."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from gateway.db.ledger import DIMENSIONS, LedgerQuery, LedgerRepository, LedgerRow, day_of
from policies.intervals import Interval
from policies.ledger import PriceTable
from policies.ledger.break_even import break_even
from policies.ledger.levers import Lever, Observed, Traffic, levers
from policies.ledger.report import CacheUse, LayerLine, Totals, added, by_layer, cache_use, totals

__all__ = ["DIMENSIONS", "Account", "Accounts", "CacheLine", "Group", "LedgerQuery", "last_days"]

_DAY_S = 86_400
_FIVE_MINUTES_S = 300


class Group(msgspec.Struct, frozen=True):
    """The sums of one group.

    Attributes:
        group: what it is of, by the names asked for.
    """

    group: Mapping[str, str]
    totals: Totals


class Account(msgspec.Struct, frozen=True):
    """What answers cost and saved from one day to another, both included.

    Attributes:
        first_day, last_day: YYYY-MM-DD, UTC.
        currency: of all money.
        layers: by layer.
        groups: by what was asked for; empty when nothing was.
        unpriced_models: whose tokens count, and whose money is not known.
    """

    first_day: str
    last_day: str
    currency: str
    totals: Totals
    layers: list[LayerLine]
    groups: list[Group]
    unpriced_models: list[str]


class CacheLine(msgspec.Struct, frozen=True):
    """What the prompt cache of one model at one provider did on one day.

    Attributes:
        owner: `engine` for one's own prefix cache, `provider` for another's.
        most_write_share: the write share at which such a cache costs as much as none (writes of 5 minutes); None
            when no price is known.
    """

    day: str
    provider: str
    model: str
    owner: str
    use: CacheUse
    most_write_share: float | None


class Accounts:
    """Reads the stored sums.

    Args:
        engines: names of providers whose prefix cache is one's own.
    """

    def __init__(self, repository: LedgerRepository, prices: PriceTable, engines: frozenset[str]) -> None:
        self.prices = prices
        self._repository = repository
        self._engines = engines

    async def account(self, query: LedgerQuery) -> Account:
        """The sums, by layer and by `query.by`.

        Raises:
            DatabaseUnavailable: see `Database.read`.
        """
        layers = await self._repository.read(replace(query, by=("layer",)))
        models = await self._repository.read(replace(query, by=("model",)))
        groups = await self._repository.read(query) if query.by else []
        return Account(
            query.first_day,
            query.last_day,
            "USD",
            totals(added(row.figures for row in layers)),
            by_layer({row.group["layer"]: row.figures for row in layers}),
            [Group(row.group, totals(row.figures)) for row in groups],
            [row.group["model"] for row in models if row.figures["unpriced"] or row.figures["calls_unpriced"]],
        )

    async def cache_use(self, query: LedgerQuery) -> list[CacheLine]:
        """What prompt caches did, by day, provider and model; `query.by` is ignored.

        Raises:
            DatabaseUnavailable: see `Database.read`.
        """
        rows = await self._repository.read(replace(query, by=("day", "provider", "model")))
        return [self._cache_line(row) for row in rows if row.figures["calls"]]

    async def levers(
        self, query: LedgerQuery, observed: Mapping[str, Observed], lost: Interval | None = None
    ) -> list[Lever]:
        """Which lever pays; `query.by` is ignored.

        Args:
            query: which sums to judge by.
            observed: what layers in mode observe counted.
            lost: share of prompt tokens that a prefix doctor saw being lost.

        Raises:
            DatabaseUnavailable: see `Database.read`.
        """
        layers = await self._repository.read(replace(query, by=("layer",)))
        calls = await self._repository.read(replace(query, by=("provider", "model")))
        traffic = Traffic(
            {row.group["layer"]: row.figures for row in layers},
            {(row.group["provider"], row.group["model"]): row.figures for row in calls if row.figures["calls"]},
            self._engines,
            observed,
            lost,
        )
        return levers(traffic, self.prices)

    def _cache_line(self, row: LedgerRow) -> CacheLine:
        group, price = row.group, self.prices.of(row.group["model"])
        most = None if price is None else break_even(price, 1, _FIVE_MINUTES_S).most_write_share
        owner = "engine" if group["provider"] in self._engines else "provider"
        return CacheLine(group["day"], group["provider"], group["model"], owner, cache_use(row.figures), most)


def last_days(now_s: float, days: int) -> tuple[str, str]:
    """First and last of so many days up to today, UTC."""
    today = int(now_s // _DAY_S)
    return day_of(today - days + 1), day_of(today)
