"""The ledger at work: lines summed in memory, flushed behind to SQL, and a feed of the latest requests."""

from gateway.ledger.book import Ledger
from gateway.ledger.feed import Feed
from gateway.ledger.flusher import Flusher
from gateway.ledger.lines import Answered, Called

__all__ = ["Answered", "Called", "Feed", "Flusher", "Ledger"]
