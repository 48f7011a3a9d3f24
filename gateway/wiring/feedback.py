"""Builds what acts on feedback."""

from collections.abc import Callable

from gateway.budget import Budget
from gateway.db import Database, PurgeRepository, TenantRepository
from gateway.feedback import Desk, Feedback
from gateway.invalidation.linked import LinkAnnouncer
from gateway.invalidation.replica import Replicas
from gateway.invalidation.telling import Records
from gateway.layers.exact import ExactLayer
from gateway.layers.parts import Parts


def open_feedback(
    stores: tuple[Replicas, Database, Parts, ExactLayer, Budget | None],
    now_s: Callable[[], float],
) -> Feedback:
    """Feedback over the set's stores."""
    replicas, database, parts, exact, budget = stores
    purges = PurgeRepository(database)
    desk = Desk(
        replicas,
        exact,
        parts.sealer,
        Records(TenantRepository(database), purges),
        purges,
        parts.rows,
        LinkAnnouncer(parts.redis),
        budget,
        parts.semantic,
        parts.settings.semantic.feedback_similarity,
        parts.metrics,
        now_s,
    )
    return Feedback(desk)
