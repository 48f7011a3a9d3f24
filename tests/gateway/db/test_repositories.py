"""The contract of the repositories, the same on SQLite and PostgreSQL."""

import hashlib
import json
import re

import pytest

from gateway.db import (
    AuditRepository,
    Database,
    KeyRepository,
    PurgeRepository,
    RecordError,
    TenantRecord,
    TenantRepository,
    key_digest,
)


async def test_a_new_tenant_starts_at_zero_and_is_found_by_name_and_id(database: Database) -> None:
    tenants = TenantRepository(database)
    acme = await tenants.create("acme", "cli", 12.5)
    assert (acme.name, acme.created_at, acme.disabled_at) == ("acme", 12.5, None)
    assert (acme.auth_seq, acme.purge_seq) == (0, 0)
    assert await tenants.find("acme") == acme
    assert await tenants.find(acme.tenant_id) == acme


async def test_tenants_are_listed_by_name_and_names_are_unique(database: Database) -> None:
    tenants = TenantRepository(database)
    for name in ("zoo", "acme", "mid"):
        await tenants.create(name, "cli", 1.0)
    assert [tenant.name for tenant in await tenants.list()] == ["acme", "mid", "zoo"]
    with pytest.raises(RecordError, match="acme") as caught:
        await tenants.create("acme", "cli", 2.0)
    assert caught.value.reason == "conflict"
    assert len(await tenants.list()) == 3


async def test_odd_names_are_refused_and_never_found(database: Database) -> None:
    tenants = TenantRepository(database)
    for name in ("", "Acme", "-a", ".a", "a b", "a" * 64, "a\x00", "ä", "a\n", "a/b"):
        with pytest.raises(RecordError) as refused:
            await tenants.create(name, "cli", 1.0)
        assert refused.value.reason == "invalid"
        with pytest.raises(RecordError) as missing:
            await tenants.find(name)
        assert missing.value.reason == "not_found"


async def test_a_tenants_name_never_shadows_an_id(database: Database, tenant: TenantRecord) -> None:
    with pytest.raises(RecordError, match="is not a name"):
        await TenantRepository(database).create(tenant.tenant_id, "cli", 1.0)


async def test_a_key_is_returned_once_and_only_its_digest_is_kept(
    database: Database, tenant: TenantRecord
) -> None:
    keys = KeyRepository(database)
    record, secret = await keys.create("acme", "laptop", "cli", 5.0)
    assert re.fullmatch(r"lam_[A-Za-z0-9_-]{43}", secret)
    assert record.digest == hashlib.sha256(secret.encode()).digest() == key_digest(secret)
    assert record.hint == secret[-4:]
    assert await keys.list(tenant.tenant_id) == [record]
    assert secret not in repr(record)
    for row in await AuditRepository(database).since():
        assert secret not in repr(row)


async def test_the_owner_of_a_digest_is_found_also_after_revocation(
    database: Database, tenant: TenantRecord
) -> None:
    tenants, keys = TenantRepository(database), KeyRepository(database)
    record, secret = await keys.create("acme", "", "cli", 5.0)
    found = await tenants.by_key_digest(key_digest(secret))
    assert found is not None
    assert (found.tenant_id, found.auth_seq, found.keys) == (tenant.tenant_id, 1, (record,))
    revoked = await keys.revoke(record.key_id, "cli", 6.0)
    assert await tenants.by_key_digest(key_digest(secret)) == revoked
    assert revoked.auth_seq == 2
    assert revoked.keys[0].revoked_at == 6.0
    assert revoked.keys[0].revoked
    assert await tenants.by_key_digest(key_digest("lam_nobody")) is None
    assert await tenants.state("T0000000000000000") is None


async def test_a_state_holds_only_its_own_keys_oldest_first(database: Database) -> None:
    tenants, keys = TenantRepository(database), KeyRepository(database)
    acme, other = [await tenants.create(name, "cli", 1.0) for name in ("acme", "other")]
    labels = ("c", "a", "b")
    for at, label in enumerate(labels):
        await keys.create("acme", label, "cli", float(at))
    await keys.create("other", "x", "cli", 1.0)
    state = await tenants.state(acme.tenant_id)
    assert state is not None
    assert tuple(key.label for key in state.keys) == labels
    assert {key.tenant_id for key in state.keys} == {acme.tenant_id}
    assert [key.label for key in await keys.list(other.tenant_id)] == ["x"]


async def test_revoking_and_disabling_twice_changes_nothing_the_second_time(
    database: Database, tenant: TenantRecord
) -> None:
    tenants, keys = TenantRepository(database), KeyRepository(database)
    record, _ = await keys.create("acme", "", "cli", 5.0)
    first = await keys.revoke(record.key_id, "cli", 6.0)
    assert await keys.revoke(record.key_id, "cli", 7.0) == first
    shut = await tenants.disable("acme", "cli", 8.0)
    assert shut.disabled
    assert shut.auth_seq == 3
    assert await tenants.disable(tenant.tenant_id, "cli", 9.0) == shut
    assert (await tenants.find("acme")).disabled_at == 8.0


async def test_a_disabled_tenant_takes_no_new_keys(database: Database, tenant: TenantRecord) -> None:
    await TenantRepository(database).disable("acme", "cli", 2.0)
    with pytest.raises(RecordError) as caught:
        await KeyRepository(database).create("acme", "", "cli", 3.0)
    assert caught.value.reason == "conflict"
    state = await TenantRepository(database).state(tenant.tenant_id)
    assert state is not None
    assert (state.auth_seq, state.keys) == (1, ())


async def test_a_preset_key_is_checked_and_unique_over_tenants(database: Database, tenant: TenantRecord) -> None:
    keys = KeyRepository(database)
    _, secret = await keys.create(tenant.name, "", "cli", 1.0, key="my-own-key-12345")
    assert secret == "my-own-key-12345"
    await TenantRepository(database).create("other", "cli", 1.0)
    with pytest.raises(RecordError) as taken:
        await keys.create("other", "", "cli", 1.0, key=secret)
    assert taken.value.reason == "conflict"
    other = await TenantRepository(database).find("other")
    assert other.auth_seq == 0, "a refused change must leave no trace"
    for bad in ("short", "has a space in its middle", "tab\tin-the-middle", "ünïcödé-key-12345", "k" * 600):
        with pytest.raises(RecordError) as refused:
            await keys.create("acme", "", "cli", 1.0, key=bad)
        assert refused.value.reason == "invalid"
        assert bad not in str(refused.value)


async def test_an_unknown_key_or_tenant_is_not_found(database: Database) -> None:
    keys = KeyRepository(database)
    for unknown in ("K0000000000000000", "nope", "", "a\x00b", "\ud800"):
        for call in (
            keys.revoke(unknown, "cli", 1.0),
            keys.list(unknown),
            keys.create(unknown, "", "cli", 1.0),
            TenantRepository(database).disable(unknown, "cli", 1.0),
            PurgeRepository(database).append(unknown, "all", "", "hard", "cli", "", 1.0),
        ):
            with pytest.raises(RecordError) as caught:
                await call
            assert caught.value.reason == "not_found"


async def test_purges_are_numbered_per_tenant_and_read_from_a_number_on(database: Database) -> None:
    tenants, purges = TenantRepository(database), PurgeRepository(database)
    acme, other = [await tenants.create(name, "cli", 1.0) for name in ("acme", "other")]
    rows = [
        await purges.append(acme.tenant_id, "tag", "a", "hard", "cli", "why not", 2.0),
        await purges.append(acme.tenant_id, "version", "prompt=3", "soft", "cli", "", 3.5),
        await purges.append(acme.tenant_id, "all", "", "hard", "cli", "", 4.0),
    ]
    await purges.append(other.tenant_id, "key", "0" * 64, "hard", "cli", "", 5.0)
    assert [row.seq for row in rows] == [1, 2, 3]
    assert await purges.since(acme.tenant_id, 0) == rows
    assert await purges.since(acme.tenant_id, 1) == rows[1:]
    assert await purges.since(acme.tenant_id, 3) == []
    assert await purges.heads() == {acme.tenant_id: (0, 3), other.tenant_id: (0, 1)}
    state = await tenants.state(acme.tenant_id)
    assert state is not None
    assert state.purge_seq == 3


async def test_a_purge_that_can_match_nothing_is_refused(database: Database, tenant: TenantRecord) -> None:
    purges = PurgeRepository(database)
    for kind, value, mode in (
        ("all", "x", "hard"),
        ("tag", "", "hard"),
        ("key", "beef", "hard"),
        ("key", "A" * 64, "hard"),
        ("version", "prompt", "hard"),
        ("version", "=3", "hard"),
        ("tag", "a\x00", "hard"),
        ("tag", "\ud800", "hard"),
        ("tag", "t" * 600, "hard"),
        ("everything", "", "hard"),
        ("all", "", "gentle"),
    ):
        with pytest.raises(RecordError) as caught:
            await purges.append(tenant.tenant_id, kind, value, mode, "cli", "", 1.0)  # type: ignore[arg-type]
        assert caught.value.reason == "invalid"
    assert await purges.heads() == {tenant.tenant_id: (0, 0)}


async def test_every_change_leaves_one_audit_row(database: Database) -> None:
    tenants, keys = TenantRepository(database), KeyRepository(database)
    acme = await tenants.create("acme", "ann", 1.0)
    record, _ = await keys.create("acme", "laptop", "bob", 2.0)
    await PurgeRepository(database).append(acme.tenant_id, "tag", "a", "soft", "cid", "stale", 3.0)
    for _ in range(2):
        await keys.revoke(record.key_id, "dan", 4.0)
        await tenants.disable("acme", "eve", 5.0)
    other = await tenants.create("other", "ann", 6.0)
    audit = AuditRepository(database)
    rows = await audit.since(tenant_id=acme.tenant_id)
    assert [(row.actor, row.action, row.target, row.at) for row in rows] == [
        ("ann", "tenant.create", acme.tenant_id, 1.0),
        ("bob", "key.create", record.key_id, 2.0),
        ("cid", "purge", "1", 3.0),
        ("dan", "key.revoke", record.key_id, 4.0),
        ("eve", "tenant.disable", acme.tenant_id, 5.0),
    ]
    assert json.loads(rows[2].detail) == {"kind": "tag", "value": "a", "mode": "soft", "reason": "stale"}
    after = await audit.since(rows[-1].audit_id)
    assert [row.tenant_id for row in after] == [other.tenant_id]
