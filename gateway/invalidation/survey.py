"""Looks through what is stored: what a purge would take, and entries that answer to some names."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

from gateway.db.records import SemanticRow
from gateway.invalidation.replica import Replicas, TenantReplica
from gateway.invalidation.stored import EXACT, SEMANTIC, Item, Place, Stored, opened_row, told
from gateway.layers.entry import Sealer
from policies.purges import Purge, PurgeIndex, PurgeMode
from policies.types import Json

MOST_SAMPLED = 100
_AT_ONCE = 2


@dataclass(slots=True)
class Preview:
    """What purges would take, were they made now.

    Attributes:
        matches: by layer, entries that would be taken, and are not taken by earlier purges already.
        looked_at: by layer, entries that could be read.
        unread: values that are no entries of this set.
        complete: false when the time was up before everything was looked at: there may be more matches. Waiting
            for a turn takes of the time.
        sample: some of the matches, as `told` tells them.
    """

    matches: dict[str, int] = field(default_factory=lambda: {EXACT: 0, SEMANTIC: 0})
    looked_at: dict[str, int] = field(default_factory=lambda: {EXACT: 0, SEMANTIC: 0})
    unread: int = 0
    complete: bool = True
    sample: list[Item] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Found:
    """Some of the entries that were sought; `next` is where to go on, None at the end."""

    items: tuple[Item, ...]
    next: Place | None


class Survey:
    """Looks through a tenant's entries, by the very verdict that requests are judged by.

    Args:
        opened: opens the way to what is there, on connections that no request waits behind.
        sealer: opens rows.
        replicas: reads credentials, data keys and purges of a tenant.
        now_s: seconds since the epoch.
    """

    def __init__(
        self,
        opened: Callable[[], AbstractAsyncContextManager[Stored]],
        sealer: Sealer,
        replicas: Replicas,
        now_s: Callable[[], float],
    ) -> None:
        self._opened = opened
        self._sealer = sealer
        self._replicas = replicas
        self._now_s = now_s
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def preview(
        self, tenant_id: str, purges: Sequence[Purge], *, within_s: float, sample: int, mode: PurgeMode = "hard"
    ) -> Preview:
        """What these purges would take, each as if it were the tenant's next.

        Args:
            tenant_id: whose.
            purges: their sequences do not count.
            within_s: stops looking after this time, or waiting for a turn.
            sample: at most so many are shown.
            mode: a soft purge takes nothing that is stale by a purge already.

        Raises:
            StoreUnavailable: Redis does not answer.
            DatabaseUnavailable: the database does not.
        """
        replica = await self._replica(tenant_id)
        seq = replica.purges.seq + 1
        index = PurgeIndex()
        index.fold([_numbered(purge, seq) for purge in purges], seq)
        taken = {"hard"} if mode == "hard" else {"hard", "soft"}
        preview, seen = Preview(), set[tuple[str, str, int]]()
        due_s = time.monotonic() + within_s
        place: Place | None = Place()
        async with self._in_turn(due_s) as stored:
            if stored is None:
                preview.complete = False
                return preview
            while place is not None:
                step = await stored.step(tenant_id, place)
                preview.unread += step.unread
                for item in step.items:
                    name = (item.layer, item.id, 0 if item.row is None else item.row.row)
                    if name not in seen:
                        seen.add(name)
                        preview.looked_at[item.layer] += 1
                        dead = replica.purges.verdict(item.entry.made(), item.entry.as_of) in taken
                        if not dead and _named(index, item):
                            _count(preview, item, sample)
                place = step.next
                if place is not None and time.monotonic() >= due_s:
                    preview.complete, place = False, None
        return preview

    async def find(
        self, tenant_id: str, names: Sequence[Purge], *, begin: Place, limit: int, within_s: float
    ) -> Found:
        """Live entries that answer to every one of these names; about `limit` of them, a step more at most.

        Args:
            tenant_id: whose.
            names: written as purges that would take them.
            begin: where to look from.
            limit: when to stop.
            within_s: stops looking, or waiting for a turn, after this time; then `next` says where to go on, and
                there may be none yet.

        Raises:
            StoreUnavailable: Redis does not answer.
            DatabaseUnavailable: the database does not.
        """
        replica = await self._replica(tenant_id)
        sought = [_index(name) for name in names]
        due_s = time.monotonic() + within_s
        found: dict[tuple[str, str], Item] = {}
        place: Place | None = begin
        async with self._in_turn(due_s) as stored:
            while stored is not None and place is not None and len(found) < limit and time.monotonic() < due_s:
                step = await stored.step(tenant_id, place)
                for item in step.items:
                    dead = replica.purges.verdict(item.entry.made(), item.entry.as_of) == "hard"
                    if not dead and all(_named(index, item) for index in sought):
                        found[item.layer, item.id] = item
                place = step.next
        return Found(tuple(found.values()), place)

    async def one(
        self, tenant_id: str, id_: str, rows: Sequence[SemanticRow]
    ) -> list[tuple[Item, PurgeMode | None]]:
        """The entry with this id in the exact layer, and these rows of it; each with what purges say of it.

        Raises:
            StoreUnavailable: Redis does not answer.
            DatabaseUnavailable: the database does not.
        """
        replica = await self._replica(tenant_id)
        async with self._opened() as stored:
            found = [await stored.one(tenant_id, id_), *map(self.of_row, rows)]
        items = [item for item in found if item is not None]
        return [(item, replica.purges.verdict(item.entry.made(), item.entry.as_of)) for item in items]

    def of_row(self, row: SemanticRow) -> Item | None:
        """A row's entry; None when it cannot be read."""
        return opened_row(self._sealer, row)

    def told(self, item: Item) -> Json:
        """What may be told of an entry."""
        return told(item, self._now_s())

    @asynccontextmanager
    async def _in_turn(self, due_s: float) -> AsyncIterator[Stored | None]:
        """The way to what is there; None where others look all the time."""
        try:
            async with asyncio.timeout(due_s - time.monotonic()):
                await self._turn.acquire()
        except TimeoutError:
            yield None
            return
        try:
            async with self._opened() as stored:
                yield stored
        finally:
            self._turn.release()

    async def _replica(self, tenant_id: str) -> TenantReplica:
        replica = TenantReplica(tenant_id)
        await self._replicas.refresh(replica)
        return replica


def _index(purge: Purge) -> PurgeIndex:
    index = PurgeIndex()
    index.fold([_numbered(purge, 1)], 1)
    return index


def _numbered(purge: Purge, seq: int) -> Purge:
    return Purge(seq, purge.kind, purge.value, "hard", purge.members, purge.at_s)


def _named(index: PurgeIndex, item: Item) -> bool:
    """Whether any purge of the index names it; all of them are later than every entry."""
    return index.verdict(item.entry.made(), index.seq - 1) is not None


def _count(preview: Preview, item: Item, sample: int) -> None:
    preview.matches[item.layer] += 1
    if len(preview.sample) < sample:
        preview.sample.append(item)
