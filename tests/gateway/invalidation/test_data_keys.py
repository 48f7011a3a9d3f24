"""A worker's keyring follows the database with the tenant's credentials, and never holds a request up."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.db import Database, DataKeyRecord, DataKeyRepository, PurgeRepository, TenantRecord, TenantRepository
from gateway.errors import DatabaseUnavailable
from gateway.invalidation.data_keys import DataKeys
from gateway.invalidation.replica import Replicas, TenantReplica
from gateway.layers.keyring import Keyring
from policies.encryption import MasterKeys, master_key
from tests.servers.sqlite import open_migrated

MASTERS = MasterKeys(master_key("m" * 32))


class Worker:
    """What one worker has of it."""

    def __init__(self, database: Database, masters: MasterKeys = MASTERS) -> None:
        self.faults: list[str] = []
        self.ring = Keyring(masters)
        self.data_keys = DataKeys(DataKeyRepository(database), self.ring, self.faults.append, lambda: 5.0)
        self.replicas = Replicas(
            TenantRepository(database), PurgeRepository(database), lambda *_: None, data_keys=self.data_keys
        )

    async def meet(self, tenant: TenantRecord) -> TenantReplica:
        """Knows the tenant as of now."""
        replica = TenantReplica(tenant.tenant_id)
        await self.replicas.refresh(replica)
        return replica


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    made = await open_migrated(f"sqlite:///{tmp_path}/lamina.db")
    yield made
    await made.close()


@pytest.fixture
async def tenant(database: Database) -> TenantRecord:
    return await TenantRepository(database).create("acme", "test", 1.0)


async def test_the_first_worker_makes_the_key_and_the_second_reads_it(
    database: Database, tenant: TenantRecord
) -> None:
    one, other = Worker(database), Worker(database)
    await one.meet(tenant)
    await other.meet(tenant)
    assert one.ring.of(tenant.tenant_id).current == other.ring.of(tenant.tenant_id).current is not None
    assert len(await DataKeyRepository(database).all()) == 1
    assert one.faults == other.faults == []


async def test_a_destroyed_key_is_gone_with_the_next_refresh(database: Database, tenant: TenantRecord) -> None:
    worker = Worker(database)
    replica = await worker.meet(tenant)
    first = worker.ring.of(tenant.tenant_id).current
    await DataKeyRepository(database).destroy(tenant.tenant_id, "test", 6.0)
    await worker.replicas.refresh(replica)
    after = worker.ring.of(tenant.tenant_id)
    assert after.current not in (None, first)
    assert len(after.by_tag) == 1
    assert worker.ring.generation == 1
    await DataKeyRepository(database).destroy(tenant.tenant_id, "test", 7.0)
    await TenantRepository(database).disable("acme", "test", 7.0)
    await worker.replicas.refresh(replica)
    assert worker.ring.of(tenant.tenant_id).by_tag == {}


async def test_a_master_key_that_opens_nothing_is_told_and_costs_the_cache_only(
    database: Database, tenant: TenantRecord
) -> None:
    await Worker(database).meet(tenant)
    stranger = Worker(database, MasterKeys(master_key("z" * 32)))
    await stranger.meet(tenant)
    assert stranger.ring.of(tenant.tenant_id).current is None
    assert stranger.faults == ["wrapped_by_another"]
    assert len(await DataKeyRepository(database).all()) == 1


class Unwritable:
    """A database that takes no writes for a while."""

    def __init__(self, database: Database) -> None:
        self.real = DataKeyRepository(database)
        self.down = True

    async def of(self, tenant_id: str) -> list[DataKeyRecord]:
        """Reads."""
        return await self.real.of(tenant_id)

    async def add(self, record: DataKeyRecord, actor: str) -> bool:
        """Fails while it is down."""
        if self.down:
            raise DatabaseUnavailable("down")
        return await self.real.add(record, actor)


async def test_a_key_that_could_not_be_made_is_made_by_the_poll(database: Database, tenant: TenantRecord) -> None:
    worker, source = Worker(database), Unwritable(database)
    worker.data_keys._source = source
    await worker.meet(tenant)
    assert worker.faults == ["no_key"]
    assert worker.data_keys.lacks(tenant.tenant_id)
    source.down = False
    await worker.replicas.poll()
    assert not worker.data_keys.lacks(tenant.tenant_id)


class Slow:
    """A database whose first answer is held back."""

    def __init__(self, database: Database) -> None:
        self.real = DataKeyRepository(database)
        self.let_go = asyncio.Event()
        self.reads = 0

    async def of(self, tenant_id: str) -> list[DataKeyRecord]:
        """Reads; tells the first time what it saw only when it may."""
        found = await self.real.of(tenant_id)
        self.reads += 1
        if self.reads == 1:
            await self.let_go.wait()
        return found

    async def add(self, record: DataKeyRecord, actor: str) -> bool:
        """As always."""
        return await self.real.add(record, actor)


async def test_what_was_read_before_a_destruction_never_comes_after_it(
    database: Database, tenant: TenantRecord
) -> None:
    worker, source = Worker(database), Slow(database)
    await worker.meet(tenant)
    worker.data_keys._source = source
    early = asyncio.create_task(worker.data_keys.refresh(tenant.tenant_id, make=False))
    while source.reads == 0:  # noqa: ASYNC110  (another task, and no event of its)
        await asyncio.sleep(0.01)
    await DataKeyRepository(database).destroy(tenant.tenant_id, "test", 6.0)
    late = asyncio.create_task(worker.data_keys.refresh(tenant.tenant_id, make=False))
    await asyncio.sleep(0.05)
    source.let_go.set()
    await asyncio.gather(early, late)
    assert worker.ring.of(tenant.tenant_id).by_tag == {}
