"""Builds what learns from answers: the error budget, its audits, and feedback."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from gateway.audits import Audits
from gateway.budget import Budget, BudgetPlan
from gateway.changes import Changes
from gateway.changes import Desk as ChangesDesk
from gateway.db import Database, PurgeRepository, SemanticRows, TenantRepository
from gateway.db.budget import BudgetRepository
from gateway.errors import DatabaseUnavailable
from gateway.invalidation.linked import LinkAnnouncer
from gateway.invalidation.telling import Records
from gateway.redis_link import RedisLink
from gateway.semantic_link import SemanticLink
from gateway.settings import Settings
from gateway.telemetry.metrics import Metrics
from policies.semantic import Least

_POLL_S = 1.0
_FORGET_EVERY = 3600


def open_changes(  # noqa: PLR0917  (what a part of the gateway is built from)
    settings: Settings,
    link: SemanticLink | None,
    database: Database,
    redis: RedisLink,
    outlets: tuple[Metrics, structlog.typing.FilteringBoundLogger],
    now_s: Callable[[], float],
) -> Changes | None:
    """What notices that a refresh brings another answer, or None where meaning is not compared."""
    if link is None:
        return None
    purges = PurgeRepository(database)
    desk = ChangesDesk(
        link,
        SemanticRows(database),
        purges,
        Records(TenantRepository(database), purges),
        LinkAnnouncer(redis),
        settings.semantic.feedback_similarity,
        *outlets,
        now_s,
    )
    return Changes(desk)


@dataclass(frozen=True, slots=True)
class Learning:
    """The error budget at work; `close` it once, after the last request."""

    budget: Budget
    audits: Audits
    metrics: Metrics

    async def poll(self) -> None:
        """Exchanges what was learnt with the other workers, for ever."""
        polls = 0
        while True:
            await asyncio.sleep(_POLL_S)
            polls += 1
            try:
                await self.budget.poll()
                if polls % _FORGET_EVERY == 0:
                    await self.budget.forget()
            except DatabaseUnavailable:
                self.metrics.fault("budget", "unavailable")
            except Exception as error:  # noqa: BLE001  (recorded; without the poll nothing would be learnt again)
                self.metrics.fault("budget", type(error).__name__)

    async def close(self) -> None:
        """Learns what waits and saves what was counted."""
        await self.audits.close()
        await self.budget.close()


def open_learning(
    settings: Settings,
    link: SemanticLink | None,
    database: Database,
    outlets: tuple[Metrics, structlog.typing.FilteringBoundLogger],
    now_s: Callable[[], float],
) -> Learning | None:
    """What learns, or None where meaning is not compared or the rule is fixed."""
    semantic = settings.semantic
    if link is None or semantic.rule == "fixed":
        return None
    metrics, log = outlets
    plan = BudgetPlan(
        semantic.max_wrong,
        {model.name: model.max_wrong for model in settings.models if model.max_wrong is not None},
        semantic.audit_share,
        semantic.label_half_life_s,
        first_probability=Least(semantic.min_probability, semantic.min_conversation_probability),
    )
    budget = Budget(BudgetRepository(database), plan, metrics, log, now_s=now_s)
    return Learning(budget, Audits(budget, link, metrics, now_s), metrics)
