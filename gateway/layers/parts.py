"""What layers are built from; each takes what it needs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.db import SemanticRows
from gateway.layers.entry import Entry, Sealer
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
        dead: whether a hard purge names an entry that is about to be stored.
    """

    settings: Settings
    redis: RedisLink
    semantic: "SemanticLink | None"
    rows: SemanticRows
    sealer: Sealer
    metrics: Metrics
    dead: Callable[[Entry], bool] = lambda _: False
