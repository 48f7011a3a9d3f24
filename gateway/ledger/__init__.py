"""The ledger at work: lines summed in memory, flushed behind to SQL, and a feed of the latest requests."""

from gateway.ledger.accounts import Accounts
from gateway.ledger.book import Ledger
from gateway.ledger.feed import Feed
from gateway.ledger.flusher import Flusher
from gateway.ledger.lines import Answered, Called
from gateway.ledger.parts import LedgerParts
from gateway.ledger.prices import engines_of, price_table

__all__ = [
    "Accounts",
    "Answered",
    "Called",
    "Feed",
    "Flusher",
    "Ledger",
    "LedgerParts",
    "engines_of",
    "price_table",
]
