"""Erasures: begun, followed while they run, and proven by what the audit keeps of them."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.db.erasing import BEGUN, DONE, FAILED, ErasingRepository, make_erasure_id
from gateway.db.records import AuditRow
from gateway.erasure.contract import Scope
from gateway.erasure.progress import LOST_AFTER_S, Progress, Standing
from gateway.erasure.work import Eraser, Order
from gateway.errors import DatabaseUnavailable, LaminaError
from gateway.telemetry.metrics import Metrics
from policies.erasure import is_signed, signature

_TRIES = 10
_INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Erasure:
    """How an erasure stands.

    Attributes:
        state: `running`, `done`, `failed`, or `interrupted` where the worker that ran it is gone.
        steps: (name, state) of those begun, in order; empty where Redis does not tell.
        planned: how many steps there are; 0 where Redis does not tell.
        report: the proof, once there is one.
        signature: of the report.
        signed: whether the report is what was signed, as far as this set's secret can tell.
    """

    erasure_id: str
    tenant_id: str
    scope: str
    actor: str
    begun_at: float
    state: str
    steps: tuple[tuple[str, str], ...] = ()
    planned: int = 0
    report: Mapping[str, Any] | None = None
    signature: str = ""
    signed: bool = False


@dataclass(frozen=True, slots=True)
class Stood:
    """How an erasure stood in a list.

    Attributes:
        begun: the row of its beginning.
        state: as of Erasure.
        complete: of one that is done, whether every store was clean at a second look.
    """

    begun: AuditRow
    state: str
    complete: bool | None = None


class Erasures:
    """Runs erasures in this worker, and tells of those of every worker.

    Args:
        records: the audit.
        progress: what workers tell of those that run.
        eraser: makes what carries one out; stores are not shared by two.
        key: signs proofs.
        metrics: told of faults.
        now_s: seconds since the epoch.
    """

    def __init__(  # noqa: PLR0917  (what wiring has)
        self,
        records: ErasingRepository,
        progress: Progress,
        eraser: Callable[[], Eraser],
        key: bytes,
        metrics: Metrics,
        now_s: Callable[[], float],
    ) -> None:
        self._records = records
        self._progress = progress
        self._eraser = eraser
        self._key = key
        self._metrics = metrics
        self._now_s = now_s
        self._running: set[asyncio.Task[None]] = set()

    async def begin(self, scope: Scope, actor: str) -> str:
        """Begins an erasure behind the call; returns its id.

        Raises:
            DatabaseUnavailable: nothing was begun.
        """
        order = Order(make_erasure_id(), scope, actor)
        kind = "user" if scope.user else "tenant"
        begun = (actor, self._now_s())
        more = {"scope": kind, "shredded": scope.shredded}
        await self._records.record(BEGUN, scope.tenant_id, order.erasure_id, begun, more)
        await self._progress.tell(order.erasure_id, {}, 0)
        task = asyncio.create_task(self._run(order), name="erase")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return order.erasure_id

    async def drained(self) -> None:
        """Returns once nothing runs in this worker."""
        await asyncio.gather(*self._running, return_exceptions=True)

    async def find(self, erasure_id: str) -> Erasure | None:
        """How an erasure stands; None when there is none of this id.

        Raises:
            DatabaseUnavailable: it cannot be said.
        """
        rows = await self._records.rows_of(erasure_id)
        if not rows or rows[0].action != BEGUN:
            return None
        if rows[-1].action != BEGUN:
            return self._told(rows, Standing(silent=False))
        standing = await self._progress.read(erasure_id)
        return self._told(await self._records.rows_of(erasure_id), standing)

    async def begun(self, tenant_ids: frozenset[str] | None, before: int | None, limit: int) -> list[AuditRow]:
        """The beginnings of erasures, the latest first; see ErasingRepository.begun."""
        return await self._records.begun(tenant_ids, before, limit)

    async def standings(self, rows: Sequence[AuditRow]) -> list[Stood]:
        """How each of these stands, by the row of its beginning; `find` looks closer.

        Raises:
            DatabaseUnavailable: it cannot be said.
        """
        ends = await self._records.ends([row.target for row in rows])
        silent: frozenset[str] = frozenset()
        if going := [row.target for row in rows if row.target not in ends]:
            silent = await self._progress.untold(going)
            ends |= await self._records.ends(going)
        return [self._stood(row, ends.get(row.target), silent=row.target in silent) for row in rows]

    def _stood(self, begun: AuditRow, end: AuditRow | None, *, silent: bool) -> Stood:
        if end is None:
            return Stood(begun, self._unended(begun, silent=silent))
        if end.action == FAILED:
            return Stood(begun, "failed")
        return Stood(begun, "done", complete=bool(json.loads(end.detail)["report"]["complete"]))

    def _unended(self, begun: AuditRow, *, silent: bool) -> str:
        lost = silent and self._now_s() > begun.at + LOST_AFTER_S
        return _INTERRUPTED if lost else "running"

    async def _run(self, order: Order) -> None:
        steps: dict[str, str] = {}
        eraser = self._eraser()

        async def told(step: str, state: str) -> None:
            steps[step] = state
            await self._progress.tell(order.erasure_id, steps, len(eraser.steps))

        telling = asyncio.create_task(self._progress.keep_telling(order.erasure_id, steps, len(eraser.steps)))
        try:
            report = (await eraser.run(order, told)).told()
            more = {"report": report, "signature": signature(self._key, report)}
            await self._record(DONE, order, more)
        except LaminaError as error:
            await self._failed(order, f"{type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001  (the edge of a task: recorded, and whoever asks is told)
            await self._failed(order, type(error).__name__)
        finally:
            telling.cancel()
            await eraser.close()

    async def _failed(self, order: Order, why: str) -> None:
        self._metrics.fault("erasure", "failed")
        try:
            await self._record(FAILED, order, {"why": why[:500]})
        except LaminaError:
            self._metrics.fault("erasure", "not_recorded")

    async def _record(self, action: str, order: Order, more: Mapping[str, object]) -> None:
        """A proof that cannot be written is as good as none, so the database gets some time."""
        ended = (order.actor, self._now_s())
        for _ in range(_TRIES - 1):
            try:
                return await self._records.record(action, order.scope.tenant_id, order.erasure_id, ended, more)
            except DatabaseUnavailable:
                await asyncio.sleep(1.0)
        return await self._records.record(action, order.scope.tenant_id, order.erasure_id, ended, more)

    def _told(self, rows: list[AuditRow], standing: Standing) -> Erasure:
        begun, last = rows[0], rows[-1]
        first: dict[str, Any] = json.loads(begun.detail)
        known = (begun.target, begun.tenant_id or "", str(first["scope"]), begun.actor, begun.at)
        detail: dict[str, Any] = json.loads(last.detail)
        if last.action == DONE:
            report, signed = detail["report"], str(detail["signature"])
            return Erasure(
                *known,
                "done",
                report=report,
                signature=signed,
                signed=is_signed(self._key, report, signed),
            )
        if last.action == FAILED:
            return Erasure(*known, "failed", steps=((str(detail.get("why", "")), "failed"),))
        state = self._unended(begun, silent=standing.silent)
        return Erasure(*known, state, standing.steps, standing.planned)
