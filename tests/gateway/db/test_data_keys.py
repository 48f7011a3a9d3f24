"""Data keys in both databases: one current key per tenant, and a destroyed one never comes back."""

import asyncio

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db import (
    AuditRepository,
    Database,
    DataKeyRecord,
    DataKeyRepository,
    PurgeRepository,
    RecordError,
    TenantRecord,
    TenantRepository,
)
from gateway.errors import DatabaseUnavailable


def key(tenant: TenantRecord, number: int, at: float = 1.0) -> DataKeyRecord:
    return DataKeyRecord(f"D{number:016X}", tenant.tenant_id, b"wrapped", "a" * 16, at)


async def auth_seq(database: Database) -> int:
    return (await TenantRepository(database).find("acme")).auth_seq


async def test_a_tenant_gets_one_key_whoever_asks_first(database: Database, tenant: TenantRecord) -> None:
    keys = DataKeyRepository(database)
    made = await asyncio.gather(*(keys.add(key(tenant, number), "test") for number in range(1, 6)))
    assert sorted(made) == [False] * 4 + [True]
    (record,) = await keys.of(tenant.tenant_id)
    assert (record.wrapped, record.retired_at, record.destroyed_at) == (b"wrapped", None, None)
    assert await auth_seq(database) >= 1
    told = [row for row in await AuditRepository(database).since() if row.action == "data_key.create"]
    assert [(row.target, row.detail) for row in told] == [(record.key_id, "{}")]


async def test_replacing_retires_and_destroying_leaves_the_id(database: Database, tenant: TenantRecord) -> None:
    keys = DataKeyRepository(database)
    await keys.add(key(tenant, 1), "test")
    await keys.add(key(tenant, 2, 2.0), "test", replacing=True)
    assert [record.retired_at for record in await keys.of(tenant.tenant_id)] == [2.0, None]
    before = await auth_seq(database)
    gone = await keys.destroy(tenant.tenant_id, "test", 3.0)
    assert [(record.wrapped, record.destroyed_at) for record in gone] == [(None, 3.0)] * 2
    assert await auth_seq(database) > before
    assert await keys.destroy(tenant.tenant_id, "test", 9.0) == gone
    assert await keys.add(key(tenant, 3, 4.0), "test")
    assert [record.key_id[-1] for record in await keys.all() if record.wrapped is not None] == ["3"]


async def test_a_disabled_tenant_gets_no_key(database: Database, tenant: TenantRecord) -> None:
    await TenantRepository(database).disable("acme", "test", 2.0)
    keys = DataKeyRepository(database)
    assert not await keys.add(key(tenant, 1), "test")
    with pytest.raises(RecordError, match="live tenant"):
        await keys.add(key(tenant, 1), "test", replacing=True)


async def test_rewrapping_touches_what_it_must(database: Database, tenant: TenantRecord) -> None:
    keys = DataKeyRepository(database)
    for number in range(1, 4):
        await keys.add(key(tenant, number, float(number)), "test", replacing=True)

    def rewrap(record: DataKeyRecord) -> tuple[str, bytes] | None:
        return None if record.key_id.endswith("2") else ("b" * 16, b"anew")

    assert await keys.rewrap(rewrap, "test", 9.0) == 2
    assert [record.wrapped for record in await keys.of(tenant.tenant_id)] == [b"anew", b"wrapped", b"anew"]
    await keys.destroy(tenant.tenant_id, "test", 9.0)
    assert await keys.rewrap(rewrap, "test", 9.0) == 0


async def change(database: Database, statement: str) -> None:
    async def work(connection: AsyncConnection) -> None:
        await connection.execute(text(statement))

    await database.write(work)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET detail = '{}'",
        "UPDATE purge_log SET reason = ''",
        "UPDATE purge_log SET reason = '', kind = 'all', value = ''",
        "UPDATE purge_log SET reason = '', value = '#00'",
    ],
)
async def test_history_may_be_blanked(database: Database, tenant: TenantRecord, statement: str) -> None:
    await PurgeRepository(database).append(tenant.tenant_id, "user", "u1", "hard", "cli", "left us", 1.0)
    await change(database, statement)


@pytest.mark.parametrize(
    "statement",
    [
        'UPDATE audit SET detail = \'{"name": "other"}\'',
        "UPDATE audit SET detail = '{}', target = 'other'",
        "UPDATE audit SET detail = '{}', action = 'erasure.done'",
        "UPDATE purge_log SET reason = 'other'",
        "UPDATE purge_log SET reason = '', value = 'other'",
        "UPDATE purge_log SET reason = '', kind = 'tag'",
        "UPDATE purge_log SET reason = '', mode = 'soft'",
        "UPDATE purge_log SET reason = '', kind = 'all', value = '', seq = seq + 1",
    ],
)
async def test_and_not_rewritten(database: Database, tenant: TenantRecord, statement: str) -> None:
    await PurgeRepository(database).append(tenant.tenant_id, "user", "u1", "hard", "cli", "left us", 1.0)
    with pytest.raises(DatabaseUnavailable, match="append-only"):
        await change(database, statement)
