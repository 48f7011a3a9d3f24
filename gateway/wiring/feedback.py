"""Builds the feedback surface."""

from collections.abc import Callable

from gateway.budget import Budget
from gateway.db import Database, PurgeRepository, TenantRepository
from gateway.feedback import Desk, Feedback
from gateway.http.feedback import FeedbackSurface
from gateway.invalidation.linked import LinkAnnouncer
from gateway.invalidation.replica import Replicas
from gateway.invalidation.telling import Records
from gateway.layers.exact import ExactLayer
from gateway.layers.parts import Parts
from gateway.pipeline import Pipeline


def feedback_surface(
    stores: tuple[Replicas, Database, Parts, ExactLayer, Budget | None],
    pipeline: Pipeline,
    now_s: Callable[[], float],
) -> FeedbackSurface:
    """The surface over the set's stores."""
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
    return FeedbackSurface(pipeline, Feedback(desk))
