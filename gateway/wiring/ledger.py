"""Builds the ledger: sums, flushes, and the feed."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from gateway.db import Database, LedgerRepository
from gateway.ledger import Feed, Flusher, Ledger
from gateway.redis_link import RedisLink
from gateway.routes import ENGINE
from gateway.settings import Settings
from gateway.telemetry.metrics import Metrics
from policies import ledger as policies_ledger
from policies.ledger import PriceTable, read_price_rows

PRICES = Path(policies_ledger.__file__).parent / "data" / "prices.json"


@dataclass(frozen=True, slots=True)
class LedgerParts:
    """The ledger at work; `close` it once, after the last request and before the database."""

    ledger: Ledger
    repository: LedgerRepository
    flusher: Flusher
    feed: Feed | None

    def tasks(self) -> Iterable["asyncio.Task[None]"]:
        """Begins what runs behind the answers."""
        yield asyncio.create_task(self.flusher.run(), name="flush-ledger")
        if self.feed is not None:
            yield asyncio.create_task(self.feed.run(), name="write-feed")

    async def close(self) -> None:
        """Stores the rest of the sums and shows the rest of the feed."""
        if self.feed is not None:
            await self.feed.write()
        await self.flusher.close()


def price_table(settings: Settings) -> PriceTable:
    """The prices of the settings, then the list prices."""
    own = [price.row(model) for model, price in settings.ledger.prices.items()]
    return PriceTable([*own, *read_price_rows(PRICES.read_bytes())])


def open_ledger(
    settings: Settings, database: Database, link: RedisLink, metrics: Metrics, now_s: Callable[[], float]
) -> LedgerParts:
    """The ledger of one worker; opens no connection."""
    engines = {name for name, provider in settings.providers.items() if provider.kind == ENGINE}
    feed = Feed(link, metrics) if settings.ledger.feed else None
    add = None if feed is None else feed.add
    ledger = Ledger(price_table(settings), frozenset(engines | {ENGINE}), metrics, add, now_s)
    repository = LedgerRepository(database)
    flusher = Flusher(ledger, repository, metrics, now_s, keep_days=settings.ledger.keep_days)
    return LedgerParts(ledger, repository, flusher, feed)
