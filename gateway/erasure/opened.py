"""Erasures over the stores of a worker, built by hand."""

from collections.abc import Callable
from dataclasses import dataclass

from gateway.db import Database, DataKeyRepository, PurgeRepository, SemanticRows, TenantRepository
from gateway.db.erasing import ErasingRepository
from gateway.erasure.book import Erasures
from gateway.erasure.contract import Store
from gateway.erasure.progress import Progress
from gateway.erasure.record_store import DatabaseFiles, EngineStore, RecordStore
from gateway.erasure.redis_store import RedisFiles, RedisStore
from gateway.erasure.row_store import IndexStore, RowStore
from gateway.erasure.work import Announce, Eraser, Learn, Records
from gateway.layers.entry import Sealer, derive
from gateway.layers.salts import Salts
from gateway.redis_link import RedisLink, RedisTarget
from gateway.semantic_link import SemanticLink
from gateway.settings import Settings
from gateway.telemetry.metrics import Metrics

_DEADLINE_S = 5.0
_RETRY_S = 0.5
_FAILURES = 5


@dataclass(frozen=True, slots=True)
class Means:
    """What a worker has that erasing needs.

    Attributes:
        redis: where progress is told; entries are erased over a link of their own, with a longer deadline.
        link: to the semantic service; None where there is none.
        learn: brings a tenant's data keys into this worker.
        settle_s: None for as long as workers may go without asking the database.
    """

    settings: Settings
    database: Database
    redis: RedisLink
    link: SemanticLink | None
    sealer: Sealer
    announce: Announce
    learn: Learn
    metrics: Metrics
    now_s: Callable[[], float]
    settle_s: float | None = None

    @property
    def secret(self) -> bytes:
        """The master secret; empty where none is set, and then proofs say little."""
        secret = self.settings.secret
        return b"" if secret is None else secret.get_secret_value().encode()


def open_erasures(means: Means) -> Erasures:
    """Erasures of this worker."""

    def eraser() -> Eraser:
        return open_eraser(means)

    key = derive(means.secret, "erasure-proof", "")
    reading = ErasingRepository(means.database)
    return Erasures(reading, Progress(means.redis), eraser, key, means.metrics, means.now_s)


def open_eraser(means: Means) -> Eraser:
    """What carries out one erasure; `close` it."""
    settings, database = means.settings, means.database
    link = RedisLink(
        RedisTarget.parse("" if settings.redis_url is None else settings.redis_url.get_secret_value()),
        deadline_s=_DEADLINE_S,
        failures=_FAILURES,
        retry_s=_RETRY_S,
        on_fault=lambda reason: means.metrics.fault("erasure", reason),
    )
    purges, reading = PurgeRepository(database), ErasingRepository(database)
    records = Records(TenantRepository(database), DataKeyRepository(database), purges, reading)
    rows = RowStore(reading, SemanticRows(database), means.sealer)
    salts = Salts(means.secret, settings.engine.cache_epoch)
    stores: list[Store] = [
        RedisStore(link, means.sealer),
        rows,
        IndexStore(means.link, reading, rows),
        EngineStore(settings.engine_url, salts, purges),
        RecordStore(reading),
        RedisFiles(link),
        DatabaseFiles(database),
    ]
    told = (means.announce, means.learn, means.now_s)
    return Eraser(records, stores, *told, closing=link.close, settle_s=means.settle_s)
