"""Making purges: those asked for at the same time share one transaction; each waits until every worker knows."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gateway.db import Appended, NewPurge, PurgeRow, RecordError
from gateway.errors import DatabaseUnavailable

_MOST_TOGETHER = 1000
_GIVE_UP_S = 3.0
_PAUSE_S = 0.1

Announce = Callable[[str, int, int], Awaitable[bool]]
"""Tells every worker a tenant's (auth_seq, purge_seq); false when Redis did not confirm."""


class Log(Protocol):
    """The purge log."""

    async def append_all(self, purges: Sequence[NewPurge], now_s: float) -> Appended:
        """Appends in one transaction; see PurgeRepository."""
        ...


@dataclass(frozen=True, slots=True)
class Made:
    """Purges that were made.

    Attributes:
        rows: in the order in which they were asked for.
        announced: whether the next request on every worker sees them; else each worker sees them when it next
            reads the database.
    """

    rows: tuple[PurgeRow, ...]
    announced: bool


@dataclass(slots=True)
class _Waiting:
    purges: Sequence[NewPurge]
    made: asyncio.Future[Made] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def fail(self, error: Exception) -> None:
        if not self.made.done():
            self.made.set_exception(error)
            self.made.exception()  # whoever asked may have left; without this the loop would complain

    def end(self, made: Made) -> None:
        if not self.made.done():
            self.made.set_result(made)


class Purging:
    """Makes purges in the order in which they come.

    Args:
        log: the purge log.
        announce: tried again for some seconds while Redis does not confirm.
        now_s: seconds since the epoch.
        on_fault: told of an error that nobody foresaw; whoever waits is told too, and the next purges are made.
        give_up_s: for how long.
    """

    def __init__(
        self,
        log: Log,
        announce: Announce,
        now_s: Callable[[], float],
        on_fault: Callable[[str], None],
        *,
        give_up_s: float = _GIVE_UP_S,
    ) -> None:
        self._log = log
        self._announce = announce
        self._now_s = now_s
        self._on_fault = on_fault
        self._give_up_s = give_up_s
        self._waiting: list[_Waiting] = []
        self._writing: asyncio.Task[None] | None = None
        self._telling: set[asyncio.Task[None]] = set()

    async def make(self, purges: Sequence[NewPurge]) -> Made:
        """Makes these purges, all in one transaction, or none; whoever stops waiting does not stop them.

        Raises:
            RecordError: see `PurgeRepository.append_all`.
            DatabaseUnavailable: as there.
        """
        waiting = _Waiting(purges)
        self._waiting.append(waiting)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write(), name="purges")
        return await asyncio.shield(waiting.made)

    async def _write(self) -> None:
        try:
            while self._waiting:
                await self._append(self._take())
        finally:
            self._writing = None

    def _take(self) -> list[_Waiting]:
        taken: list[_Waiting] = []
        count = 0
        while self._waiting and (not taken or count + len(self._waiting[0].purges) <= _MOST_TOGETHER):
            taken.append(self._waiting.pop(0))
            count += len(taken[-1].purges)
        return taken

    async def _append(self, batch: list[_Waiting]) -> None:
        try:
            appended = await self._log.append_all([purge for one in batch for purge in one.purges], self._now_s())
        except RecordError as error:
            if len(batch) == 1:
                batch[0].fail(error)
                return
            for one in batch:  # one of them cannot be; the others must not suffer for it
                await self._append([one])
        except DatabaseUnavailable as error:
            for one in batch:
                one.fail(error)
        except Exception as error:  # noqa: BLE001  (recorded; without this task nobody would be answered again)
            self._on_fault(type(error).__name__)
            for one in batch:
                one.fail(error)
        else:
            task = asyncio.create_task(self._tell(batch, appended), name="announce-purges")
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def _tell(self, batch: list[_Waiting], appended: Appended) -> None:
        """Announces each tenant once, then tells whoever waits."""
        told: dict[str, bool] = {}
        try:
            announcing = [self._announced(tenant_id, *seqs) for tenant_id, seqs in appended.heads.items()]
            told = dict(zip(appended.heads, await asyncio.gather(*announcing), strict=True))
        except Exception as error:  # noqa: BLE001  (recorded; they are made, and said to be unannounced)
            self._on_fault(type(error).__name__)
        finally:
            begin = 0
            for one in batch:
                rows = appended.rows[begin : begin + len(one.purges)]
                begin += len(rows)
                one.end(Made(rows, all(told.get(row.tenant_id, False) for row in rows)))

    async def _announced(self, tenant_id: str, auth_seq: int, purge_seq: int) -> bool:
        give_up_at = asyncio.get_running_loop().time() + self._give_up_s
        while True:
            try:
                if await self._announce(tenant_id, auth_seq, purge_seq):
                    return True
            except DatabaseUnavailable:
                return False
            if asyncio.get_running_loop().time() + _PAUSE_S > give_up_at:
                return False
            await asyncio.sleep(_PAUSE_S)
