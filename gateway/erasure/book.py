"""Erasures: begun, followed while they run, and proven by what the audit keeps of them."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.db.erasing import BEGUN, DONE, FAILED, ErasingRepository, make_erasure_id
from gateway.db.records import AuditRow
from gateway.erasure.contract import Scope
from gateway.erasure.work import Eraser, Order
from gateway.errors import DatabaseUnavailable, LaminaError, StoreUnavailable
from gateway.redis_link import RedisLink
from gateway.telemetry.metrics import Metrics
from policies.erasure import is_signed, signature

_KEPT_S = 3600
_TRIES = 10


@dataclass(frozen=True, slots=True)
class Erasure:
    """How an erasure stands.

    Attributes:
        state: `running`, `done`, `failed`; `running` also where the worker that ran it is gone.
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


class Erasures:
    """Runs erasures in this worker, and tells of those of every worker.

    Args:
        records: the audit.
        link: where progress is told.
        eraser: makes what carries one out; stores are not shared by two.
        key: signs proofs.
        metrics: told of faults.
        now_s: seconds since the epoch.
    """

    def __init__(  # noqa: PLR0917  (what wiring has)
        self,
        records: ErasingRepository,
        link: RedisLink,
        eraser: Callable[[], Eraser],
        key: bytes,
        metrics: Metrics,
        now_s: Callable[[], float],
    ) -> None:
        self._records = records
        self._link = link
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
        return await self._told(rows) if rows and rows[0].action == BEGUN else None

    async def begun(self, tenant_ids: frozenset[str] | None, before: int | None, limit: int) -> list[AuditRow]:
        """The beginnings of erasures, the latest first; see ErasingRepository.begun."""
        return await self._records.begun(tenant_ids, before, limit)

    async def _run(self, order: Order) -> None:
        steps: dict[str, str] = {}
        eraser = self._eraser()

        async def told(step: str, state: str) -> None:
            steps[step] = state
            await self._tell(order.erasure_id, steps, len(eraser.steps))

        try:
            report = (await eraser.run(order, told)).told()
            more = {"report": report, "signature": signature(self._key, report)}
            await self._record(DONE, order, more)
        except LaminaError as error:
            await self._failed(order, f"{type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001  (the edge of a task: recorded, and whoever asks is told)
            await self._failed(order, type(error).__name__)
        finally:
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

    async def _tell(self, erasure_id: str, steps: Mapping[str, str], planned: int) -> None:
        value = orjson.dumps({"steps": list(steps.items()), "planned": planned})
        try:
            await self._link.call("SET", _progress_key(erasure_id), value, "EX", _KEPT_S)
        except StoreUnavailable:
            return  # it is only progress

    async def _told(self, rows: list[AuditRow]) -> Erasure:
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
        steps, planned = await self._progress(begun.target)
        return Erasure(*known, "running", steps, planned)

    async def _progress(self, erasure_id: str) -> tuple[tuple[tuple[str, str], ...], int]:
        try:
            raw = await self._link.call("GET", _progress_key(erasure_id))
            told = orjson.loads(raw) if isinstance(raw, bytes) else {}
            steps = tuple((str(name), str(state)) for name, state in told.get("steps", ()))
            return steps, int(told.get("planned", 0))
        except (StoreUnavailable, ValueError):
            return (), 0


def _progress_key(erasure_id: str) -> str:
    return f"lamina:erasure:{erasure_id}"
