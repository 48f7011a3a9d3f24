"""Writes semantic rows behind the answers: bounded, several in one transaction, never on the path of a request."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from gateway.behind import Behind
from gateway.db import NewRow, SemanticRows
from gateway.errors import DatabaseUnavailable
from gateway.layers.entry import Entry, EntryError, Sealer
from gateway.layers.semantic import about, encoded
from gateway.telemetry.metrics import Metrics
from policies.encryption import question_place
from policies.questions import Place

_BATCH = 32
_CLOSING_S = 2.0


class Recorded(Protocol):
    """Told the number of the last change that this worker made."""

    written: int


class RowWriter:
    """One queue and one task per worker; what does not fit, or meets a database that is away, is lost and counted.

    A lost row costs a later hit, never an answer.

    Args:
        rows: the repository.
        sealer: of entries.
        layer: told what was written, so that its look-ups see it.
        max_waiting: most rows in the queue.
        dead: whether a hard purge names an entry, as far as this worker knows.
    """

    def __init__(  # noqa: PLR0917  (the parts of one queue)
        self,
        rows: SemanticRows,
        sealer: Sealer,
        layer: Recorded,
        metrics: Metrics,
        max_waiting: int,
        dead: Callable[[Entry], bool] = lambda _: False,
    ) -> None:
        self._rows = rows
        self._sealer = sealer
        self._layer = layer
        self._metrics = metrics
        self._dead = dead
        self._behind: Behind[tuple[Entry, Place, str]] = Behind(
            self._put, "semantic-rows", most_waiting=max_waiting, together=_BATCH, closing_s=_CLOSING_S
        )

    def add(self, entry: Entry, place: Place, route: str) -> None:
        """Queues the answer to the question at this place; returns at once.

        Args:
            entry: as stored in the exact layer.
            place: where the question belongs.
            route: the route's name.
        """
        if not self._behind.put((entry, place, route)):
            self._metrics.write("semantic", "lost", "queue_full")

    async def drained(self) -> None:
        """Returns when nothing waits."""
        await self._behind.drained()

    async def close(self) -> None:
        """Writes what waits, for a short time, then stops."""
        await self._behind.close()

    def _row(self, entry: Entry, place: Place, route: str) -> NewRow:
        where = question_place(entry.tenant_id, place.family, place.partition)
        question = self._sealer.seal_field(entry.tenant_id, where, encoded(place.question))
        sealed = self._sealer.seal(replace(entry, about=about(place.family, place.partition, question)))
        return NewRow(
            tenant_id=entry.tenant_id,
            family=place.family,
            partition=place.partition,
            asked=self._sealer.asked(entry.tenant_id, place.question.text),
            question=question,
            key=entry.key,
            route=route,
            sealed=sealed,
            as_of=entry.as_of,
            created_at=entry.created_s,
            expires_at=entry.created_s + entry.ttl_s,
        )

    def _rows_of(self, batch: list[tuple[Entry, Place, str]]) -> list[NewRow]:
        """What may still be stored: no tenant without its key, and nothing that was purged while it waited."""
        rows = []
        for entry, place, route in batch:
            try:
                if self._dead(entry):
                    self._metrics.write("semantic", "refused", "purged")
                else:
                    rows.append(self._row(entry, place, route))
            except EntryError as error:
                self._metrics.write("semantic", "lost", error.reason)
        return rows

    async def _put(self, batch: list[tuple[Entry, Place, str]]) -> None:
        result, reason, count = "stored", "ok", len(batch)
        try:
            rows = self._rows_of(batch)
            count = len(rows)
            if rows:
                self._layer.written = max(self._layer.written, await self._rows.put(rows))
        except DatabaseUnavailable:
            result, reason = "lost", "db_unavailable"
        except Exception as error:  # noqa: BLE001  (recorded; without this task no row would ever be written again)
            self._metrics.fault("semantic_rows", type(error).__name__)
            result, reason = "lost", "fault"
        for _ in range(count):
            self._metrics.write("semantic", result, reason)


async def sweep_for_ever(
    rows: SemanticRows, now_s: Callable[[], float], quota: int, every_s: float, on_fault: Callable[[str], None]
) -> None:
    """Removes rows that can serve no more, again and again; harmless when every worker of a set does so."""
    pause_s = every_s
    while True:
        await asyncio.sleep(pause_s)
        pause_s = every_s
        try:
            swept = await rows.sweep(now_s(), quota, _SWEPT_AT_ONCE)
            if swept == _SWEPT_AT_ONCE:
                pause_s = 0.0
            elif swept:
                await rows.forget_deletions(_KEEP_DELETIONS)
        except DatabaseUnavailable:
            on_fault("sweep")
        except Exception as error:  # noqa: BLE001  (recorded; else rows would pile up for ever)
            on_fault(f"sweep_{type(error).__name__}")


_SWEPT_AT_ONCE = 500
_KEEP_DELETIONS = 100_000
"""So many changes may a service be behind before it must read all rows anew."""
