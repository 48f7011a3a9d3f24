"""What layers are built from; each takes what it needs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.db import SemanticRows
from gateway.layers.entry import Sealer
from gateway.redis_link import RedisLink
from gateway.settings import Settings
from gateway.telemetry.metrics import Metrics

if TYPE_CHECKING:  # the command line gets here too, and needs no HTTP client
    from gateway.semantic_link import SemanticLink


@dataclass(frozen=True, slots=True)
class Parts:
    """The clients that a gateway worker has.

    Attributes:
        semantic: None where no route compares meaning, or no service is named.
    """

    settings: Settings
    redis: RedisLink
    semantic: "SemanticLink | None"
    rows: SemanticRows
    sealer: Sealer
    metrics: Metrics
