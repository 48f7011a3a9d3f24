"""What a worker has that the administrator's routes work with; wiring fills it, each area takes what it needs."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from gateway.budget import Budget
from gateway.db import Database, PurgeRepository, RecordError, SemanticRows, TenantRecord, TenantRepository
from gateway.db.row_pages import RowPages
from gateway.errors import StoreUnavailable
from gateway.explain.explainer import Explainer
from gateway.feedback import Feedback
from gateway.guards import Guards
from gateway.http.admin.caller import Caller
from gateway.invalidation.linked import LinkAnnouncer
from gateway.invalidation.purging import Purging
from gateway.invalidation.replica import Replicas
from gateway.invalidation.survey import Survey
from gateway.invalidation.telling import Records, each_told, tell
from gateway.layers.entry import Sealer
from gateway.layers.exact import ExactLayer
from gateway.layers.salts import Salts
from gateway.layers.semantic import SemanticLayer
from gateway.ledger import LedgerParts
from gateway.redis_link import RedisLink
from gateway.routes import Routes
from gateway.semantic_link import SemanticLink
from gateway.settings import Settings
from gateway.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Desk:
    """Stores, layers and clients of this worker.

    Attributes:
        semantic, link: the layer that compares meaning and the way to its service; None where nothing is compared.
        budget: what learns from comparisons; None where nothing does.
        purging: makes purges.
        survey: looks through what is stored.
        salts: under which a model's server keeps each tenant's prompts; of the administrator's routes alone.
        checks: says of each part whether it is there.
    """

    settings: Settings
    database: Database
    replicas: Replicas
    redis: RedisLink
    exact: ExactLayer
    semantic: SemanticLayer | None
    link: SemanticLink | None
    rows: SemanticRows
    budget: Budget | None
    sealer: Sealer
    salts: Salts
    routes: Routes
    guards: Guards
    explainer: Explainer
    ledger: LedgerParts
    feedback: Feedback
    purging: Purging
    survey: Survey
    checks: Mapping[str, Callable[[], Awaitable[bool]]]
    metrics: Metrics
    now_s: Callable[[], float]

    @property
    def tenants(self) -> TenantRepository:
        """The tenants' records."""
        return TenantRepository(self.database)

    @property
    def row_pages(self) -> RowPages:
        """The semantic rows by number."""
        return RowPages(self.database)

    async def tenant(self, caller: Caller, name_or_id: str) -> TenantRecord:
        """A tenant that the caller may know of.

        Raises:
            RecordError: not_found, also where another caller would find one.
            DatabaseUnavailable: it cannot be said.
        """
        found = await self.tenants.find(name_or_id)
        if not caller.may(found.tenant_id):
            raise RecordError("not_found", f"there is no tenant {name_or_id[:80]!r}")
        return found

    async def announce(self, tenant_id: str, auth_seq: int, purge_seq: int) -> bool:
        """Tells every worker of a change; false when Redis did not confirm.

        When it returns true, the next request on every worker sees the change; else each worker sees it when it
        next reads the database, a second later at most.

        Raises:
            DatabaseUnavailable: see gateway.invalidation.telling.
        """
        records = Records(self.tenants, PurgeRepository(self.database))
        try:
            await tell(LinkAnnouncer(self.redis), records, tenant_id, (auth_seq, purge_seq), self.now_s())
        except StoreUnavailable:
            self.metrics.fault("admin", "not_announced")
            return False
        return True

    async def announce_all(self, heads: Mapping[str, tuple[int, int]]) -> bool:
        """As `announce`, of many tenants; stops at the first that Redis does not confirm.

        Raises:
            DatabaseUnavailable: as `announce`.
        """
        return await each_told(self.announce, heads)
