"""Change detection: when a refresh brings another answer, what is near the question becomes stale with it.

The model has changed its mind, or the world has changed; answers to neighbouring questions, and copies of this one
under other wordings, were made before that. They are purged softly, through the purge log, so that every worker
agrees. Nothing here is on a request's path.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import structlog

from gateway.behind import Behind
from gateway.db import PurgeRepository, SemanticRows
from gateway.db.records import NewPurge
from gateway.errors import DatabaseUnavailable, SemanticUnavailable, StoreUnavailable
from gateway.invalidation.contract import Announcer
from gateway.invalidation.telling import Records, tell
from gateway.layers.entry import Entry
from gateway.same_answers import Verifier, compared
from gateway.telemetry.metrics import Metrics
from policies.nomination import Near, NearRows
from policies.types import ChatResponse

MOST_WAITING = 256
_CLOSING_S = 1.0
_NEAR_DEADLINE_S = 2.0
_MOST_NEAR = 32
_PAUSE_S = 60.0
_MOST_REMEMBERED = 4096
_REASON = "a refresh brought another answer"


class Service(Verifier, Protocol):
    """What knows meaning; may raise SemanticUnavailable."""

    async def near(self, near: Near, deadline_s: float) -> NearRows:
        """Rows near a row, nearest first."""
        ...


@dataclass(frozen=True, slots=True)
class Refreshed:
    """An answer that took the place of another.

    Attributes:
        before: what was stored.
        entry: what is stored now.
        fresh: the answer of that.
        keep: stores the entry again, as made after a purge that was its own doing.
    """

    before: ChatResponse
    entry: Entry
    fresh: ChatResponse
    keep: Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Desk:
    """What change detection passes through; built in wiring.

    Attributes:
        similarity: least cosine of a neighbour.
    """

    service: Service
    rows: SemanticRows
    purges: PurgeRepository
    records: Records
    announcer: Announcer
    similarity: float
    metrics: Metrics
    log: structlog.typing.FilteringBoundLogger
    now_s: Callable[[], float]


class Changes:
    """One queue and one task per worker; what does not fit, or fails, is counted."""

    def __init__(self, desk: Desk, most_waiting: int = MOST_WAITING) -> None:
        self._desk = desk
        self._purged_s: dict[tuple[str, bytes], float] = {}
        self._behind: Behind[Refreshed] = Behind(
            self._work, "changes", most_waiting=most_waiting, together=1, closing_s=_CLOSING_S
        )

    def compare(self, refreshed: Refreshed) -> None:
        """Queues a comparison; returns at once and never raises."""
        if not self._behind.put(refreshed):
            self._desk.metrics.refreshed("lost")

    async def drained(self) -> None:
        """Returns when nothing waits."""
        await self._behind.drained()

    async def close(self) -> None:
        """Compares what waits, for a short time, then stops."""
        await self._behind.close()

    async def _work(self, waiting: list[Refreshed]) -> None:
        for refreshed in waiting:
            try:
                self._desk.metrics.refreshed(await self._one(refreshed))
            except (DatabaseUnavailable, StoreUnavailable, SemanticUnavailable):
                self._desk.metrics.refreshed("lost")
            except Exception as error:  # noqa: BLE001  (recorded; without this task no change would be seen again)
                self._desk.metrics.fault("changes", type(error).__name__)

    async def _one(self, refreshed: Refreshed) -> str:
        how, same = await compared(self._desk.service, refreshed.before, refreshed.fresh)
        if same is not False:
            return "unknown" if same is None else "same"
        entry = refreshed.entry
        if not self._may_purge(entry):
            return "often"
        keys = [entry.key, *await self._neighbours(entry)]
        first, last = await self._purge(entry.tenant_id, keys)
        if first == entry.as_of + 1:  # nobody else's purge lies in between, and this one is not meant for it
            refreshed.keep(last)
        self._desk.log.info(
            "answer_changed",
            part="changes",
            tenant_id=entry.tenant_id,
            how=how,
            neighbours=len(keys) - 1,
            purge_seq=last,
        )
        return "changed"

    def _may_purge(self, entry: Entry) -> bool:
        """Whether this entry has made nothing stale for a while; from now on it has, and the oldest is forgotten.

        An answer that is another one each time would else keep all its neighbours stale.
        """
        name, now_s = (entry.tenant_id, entry.key), self._desk.now_s()
        last_s = self._purged_s.get(name)
        if last_s is not None and 0 <= now_s - last_s < _PAUSE_S:
            return False
        self._purged_s.pop(name, None)
        if len(self._purged_s) >= _MOST_REMEMBERED:
            del self._purged_s[next(iter(self._purged_s))]
        self._purged_s[name] = now_s
        return True

    async def _neighbours(self, entry: Entry) -> list[bytes]:
        """Keys of the rows near those of this entry, its own left out."""
        desk, found = self._desk, set[int]()
        own = await desk.rows.of_keys(entry.tenant_id, [entry.key])
        for row in own:
            near = Near(entry.tenant_id, row=row.row, similarity=desk.similarity, limit=_MOST_NEAR)
            found |= {number for number, _ in (await desk.service.near(near, _NEAR_DEADLINE_S)).rows}
        rows = await desk.rows.find(sorted(found - {row.row for row in own}))
        keys = {row.key for row in rows.values() if row.tenant_id == entry.tenant_id}
        return sorted(keys - {entry.key})[:_MOST_NEAR]

    async def _purge(self, tenant_id: str, keys: list[bytes]) -> tuple[int, int]:
        """Purges the keys softly, and tells every worker; returns the first and the last number."""
        desk, now_s = self._desk, self._desk.now_s()
        purges = [NewPurge(tenant_id, "key", key.hex(), "soft", "lamina", _REASON) for key in keys]
        rows = (await desk.purges.append_all(purges, now_s)).rows
        state = await desk.records.tenants.state(tenant_id)
        last = rows[-1].seq
        auth_seq = 0 if state is None else state.auth_seq
        await tell(desk.announcer, desk.records, tenant_id, (auth_seq, last), now_s)
        return rows[0].seq, last
