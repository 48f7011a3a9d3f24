"""Audits: a stored answer and the model's compared behind the reply, so that the error budget learns.

Nothing here is on a request's path: a comparison is queued and its request goes on. What does not fit, comes too
late or fails is lost and counted; a lost label costs knowledge, never an answer.
"""

from collections.abc import Callable

from gateway.asked import Audit
from gateway.behind import Behind
from gateway.budget import Budget
from gateway.db.budget import MarkRow, PoolName
from gateway.errors import DatabaseUnavailable
from gateway.same_answers import Verifier, compared
from gateway.telemetry.metrics import Metrics
from policies.budget import score_of, would_serve
from policies.types import ChatResponse

MOST_WAITING = 256
_CLOSING_S = 1.0


class Audits:
    """One queue and one task per worker.

    Args:
        budget: told the labels.
        verifier: asked where only meaning can tell.
        most_waiting: longest queue; more is dropped and counted.
    """

    def __init__(
        self,
        budget: Budget,
        verifier: Verifier,
        metrics: Metrics,
        now_s: Callable[[], float],
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._budget = budget
        self._verifier = verifier
        self._metrics = metrics
        self._now_s = now_s
        self._behind: Behind[tuple[Audit, ChatResponse]] = Behind(
            self._work, "audits", most_waiting=most_waiting, together=1, closing_s=_CLOSING_S
        )

    def compare(self, audit: Audit, fresh: ChatResponse) -> None:
        """Queues a comparison; returns at once and never raises."""
        if not self._behind.put((audit, fresh)):
            self._metrics.compared("queue", "lost")

    async def drained(self) -> None:
        """Returns when nothing waits."""
        await self._behind.drained()

    async def close(self) -> None:
        """Compares what waits, for a short time, then stops."""
        await self._behind.close()

    async def _work(self, waiting: list[tuple[Audit, ChatResponse]]) -> None:
        for audit, fresh in waiting:
            try:
                await self._one(audit, fresh)
            except Exception as error:  # noqa: BLE001  (recorded; without this task nothing would ever be learnt again)
                self._metrics.fault("audit", type(error).__name__)

    async def _one(self, audit: Audit, fresh: ChatResponse) -> None:
        how, right = await compared(self._verifier, audit.stored, fresh)
        if right is None:
            self._metrics.compared(how, "unknown")
            return
        try:
            await self._budget.add([self._mark(audit, right=right)])
        except DatabaseUnavailable:
            self._metrics.compared(how, "lost")
            return
        self._metrics.compared(how, "right" if right else "wrong")

    def _mark(self, audit: Audit, *, right: bool) -> MarkRow:
        candidate = audit.candidate
        return MarkRow(
            number=0,
            pool=PoolName(audit.tenant_id, audit.route, audit.models),
            row=candidate.row,
            score=score_of(candidate.probability or 0.0),
            right=right,
            how="audit",
            share=audit.decision.share if would_serve(audit.decision) else None,
            at=self._now_s(),
        )
