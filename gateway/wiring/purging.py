"""Builds what makes purges and what looks through entries."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gateway.db import Database, PurgeRepository, TenantRepository
from gateway.db.row_pages import RowPages
from gateway.errors import StoreUnavailable
from gateway.invalidation.linked import LinkAnnouncer
from gateway.invalidation.purging import Purging
from gateway.invalidation.replica import Replicas
from gateway.invalidation.stored import Stored
from gateway.invalidation.survey import Survey
from gateway.invalidation.telling import Records, tell
from gateway.layers.parts import Parts
from gateway.redis_link import RedisLink, RedisTarget

_STEP_DEADLINE_S = 2.0
_MANY = 1_000_000


def open_purging(parts: Parts, database: Database, now_s: Callable[[], float]) -> Purging:
    """What makes purges, and announces them over the worker's connection."""
    records = Records(TenantRepository(database), PurgeRepository(database))
    announcer = LinkAnnouncer(parts.redis)

    async def announce(tenant_id: str, auth_seq: int, purge_seq: int) -> bool:
        try:
            await tell(announcer, records, tenant_id, (auth_seq, purge_seq), now_s())
        except StoreUnavailable:
            parts.metrics.fault("purge", "not_announced")
            return False
        return True

    def on_fault(reason: str) -> None:
        parts.metrics.fault("purge", reason)

    return Purging(PurgeRepository(database), announce, now_s, on_fault)


def open_survey(parts: Parts, database: Database, replicas: Replicas, now_s: Callable[[], float]) -> Survey:
    """What looks through entries, over a connection of its own each time."""
    url = parts.settings.redis_url.get_secret_value() if parts.settings.redis_url else ""

    def on_fault(reason: str) -> None:
        parts.metrics.fault("survey", reason)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Stored]:
        target = RedisTarget.parse(url)
        link = RedisLink(target, deadline_s=_STEP_DEADLINE_S, failures=_MANY, retry_s=1.0, on_fault=on_fault)
        try:
            yield Stored(link, RowPages(database), parts.sealer)
        finally:
            await link.close()

    return Survey(opened, parts.sealer, replicas, now_s)
