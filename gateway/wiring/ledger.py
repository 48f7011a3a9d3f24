"""Builds the ledger: sums, flushes, and the feed."""

from collections.abc import Callable

from gateway.db import Database, LedgerRepository
from gateway.ledger import Accounts, Feed, Flusher, Ledger, LedgerParts, engines_of, price_table
from gateway.ledger.checkup import Checkup
from gateway.ledger.lines import FeedLine
from gateway.ledger.recent import Recent
from gateway.redis_link import RedisLink
from gateway.settings import Settings
from gateway.telemetry.metrics import Metrics


def open_ledger(
    settings: Settings, database: Database, link: RedisLink, metrics: Metrics, now_s: Callable[[], float]
) -> LedgerParts:
    """The ledger of one worker; opens no connection."""
    prices, engines, repository = price_table(settings), engines_of(settings), LedgerRepository(database)
    feed = Feed(link, metrics) if settings.ledger.feed else None
    recent = Recent(link, now_s)

    def shown(line: FeedLine) -> None:
        recent.add(line)
        if feed is not None:
            feed.add(line)

    ledger = Ledger(prices, engines, metrics, shown, now_s)
    flusher = Flusher(ledger, repository, metrics, now_s, keep_days=settings.ledger.keep_days)
    checkup = Checkup(link, metrics, now_s) if settings.ledger.doctor else None
    return LedgerParts(ledger, Accounts(repository, prices, engines), flusher, feed, recent, checkup)
