"""The first key: made once, by whoever comes first."""

import asyncio

import pytest

from gateway.db import (
    DEFAULT_TENANT,
    Database,
    KeyRepository,
    RecordError,
    TenantRepository,
    bootstrap,
    key_digest,
)
from tests.servers.sqlite import PATIENCE_S

PRESET = "preset-key-for-tests"


async def test_an_empty_database_gets_a_tenant_and_a_fresh_key_once(database: Database) -> None:
    key = await bootstrap(database, None, 1.0)
    assert key is not None
    assert key.startswith("lam_")
    state = await TenantRepository(database).by_key_digest(key_digest(key))
    assert state is not None
    assert (state.name, state.auth_seq, len(state.keys)) == (DEFAULT_TENANT, 1, 1)
    assert await bootstrap(database, None, 2.0) is None
    assert await TenantRepository(database).state(state.tenant_id) == state


async def test_a_preset_key_is_used_and_a_second_start_changes_nothing(database: Database) -> None:
    assert await bootstrap(database, PRESET, 1.0) == PRESET
    assert await bootstrap(database, PRESET, 2.0) is None
    assert await bootstrap(database, None, 3.0) is None
    keys = await KeyRepository(database).list(DEFAULT_TENANT)
    assert [key.digest for key in keys] == [key_digest(PRESET)]


async def test_a_new_preset_key_joins_an_old_database(database: Database) -> None:
    await TenantRepository(database).create("acme", "cli", 1.0)
    assert await bootstrap(database, None, 2.0) is None
    assert await bootstrap(database, PRESET, 2.0) == PRESET
    assert await bootstrap(database, PRESET + "-2", 3.0) == PRESET + "-2"
    assert len(await KeyRepository(database).list(DEFAULT_TENANT)) == 2


async def test_a_revoked_preset_key_stays_revoked(database: Database) -> None:
    await bootstrap(database, PRESET, 1.0)
    (record,) = await KeyRepository(database).list(DEFAULT_TENANT)
    await KeyRepository(database).revoke(record.key_id, "cli", 2.0)
    assert await bootstrap(database, PRESET, 3.0) is None
    (record,) = await KeyRepository(database).list(DEFAULT_TENANT)
    assert record.revoked_at == 2.0


async def test_a_disabled_default_tenant_stays_shut(database: Database) -> None:
    await bootstrap(database, PRESET, 1.0)
    await TenantRepository(database).disable(DEFAULT_TENANT, "cli", 2.0)
    assert await bootstrap(database, "another-preset-key", 3.0) is None
    assert len(await KeyRepository(database).list(DEFAULT_TENANT)) == 1


async def test_many_at_once_make_one_key(database: Database, records_url: str) -> None:
    other = Database.open(records_url, deadline_s=PATIENCE_S)
    made = await asyncio.gather(*(bootstrap(db, None, 1.0) for db in (database, other) for _ in range(4)))
    assert len([key for key in made if key]) == 1
    assert [tenant.name for tenant in await TenantRepository(database).list()] == [DEFAULT_TENANT]
    await other.close()


async def test_a_preset_key_that_cannot_serve_is_refused_before_anything_is_made(database: Database) -> None:
    with pytest.raises(RecordError, match="16 to 512 characters") as caught:
        await bootstrap(database, "short", 1.0)
    assert caught.value.reason == "invalid"
    assert await TenantRepository(database).list() == []
