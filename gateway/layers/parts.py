"""What layers are built from; each takes what it needs."""

from dataclasses import dataclass

from gateway.db import SemanticRows
from gateway.layers.entry import Sealer
from gateway.redis_link import RedisLink
from gateway.semantic_link import SemanticLink
from gateway.settings import Settings
from gateway.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Parts:
    """The clients that a gateway worker has.

    Attributes:
        semantic: None where no route compares meaning, or no service is named.
    """

    settings: Settings
    redis: RedisLink
    semantic: SemanticLink | None
    rows: SemanticRows
    sealer: Sealer
    metrics: Metrics
