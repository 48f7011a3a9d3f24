"""The ledger of one worker, in its parts."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from gateway.ledger.accounts import Accounts
from gateway.ledger.book import Ledger
from gateway.ledger.checkup import Checkup
from gateway.ledger.feed import Feed
from gateway.ledger.flusher import Flusher
from gateway.ledger.lines import Called
from gateway.ledger.recent import Recent
from policies.types import Json


@dataclass(frozen=True, slots=True)
class LedgerParts:
    """The ledger at work; `close` it once, after the last request and before the database.

    Attributes:
        feed, checkup: None where settings want none.
    """

    ledger: Ledger
    accounts: Accounts
    flusher: Flusher
    feed: Feed | None
    recent: Recent
    checkup: Checkup | None

    def called(self, call: Called, body: Json) -> None:
        """A model was asked `body` and answered."""
        self.ledger.called(call)
        if self.checkup is not None:
            self.checkup.add(call, body)

    def tasks(self) -> Iterable["asyncio.Task[None]"]:
        """Begins what runs behind the answers."""
        yield asyncio.create_task(self.flusher.run(), name="flush-ledger")
        if self.feed is not None:
            yield asyncio.create_task(self.feed.run(), name="write-feed")
        yield asyncio.create_task(self.recent.run(), name="write-recent")
        if self.checkup is not None:
            yield asyncio.create_task(self.checkup.run(), name="examine-prompts")

    async def close(self) -> None:
        """Stores the rest of the sums and shows the rest of the feed."""
        if self.feed is not None:
            await self.feed.write()
        await self.recent.write()
        if self.checkup is not None:
            await self.checkup.write()
        await self.flusher.close()
