"""What an erasure blanks in both databases: all that says something of somebody, and nothing that judges."""

import importlib
import json
import pkgutil
from collections.abc import Sequence

from sqlalchemy import Delete, LargeBinary, Text, insert, text
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import db
from gateway.db import (
    AuditRepository,
    Database,
    DataKeyRecord,
    DataKeyRepository,
    KeyRepository,
    NewRow,
    PurgeRepository,
    SemanticRows,
    TenantRecord,
    TenantRepository,
    postgres,
)
from gateway.db import erasing as erasing_module
from gateway.db.erasing import BEGUN, DONE, ErasingRepository, make_erasure_id
from gateway.db.tables import BUDGET_MARKS, METADATA, SEMANTIC_VECTORS
from policies.purge_scopes import person
from tests.servers.sqlite import PATIENCE_S

USER = "u_1%@example.org"


async def purged(database: Database, tenant: TenantRecord, kind: str, value: str, reason: str = "left us") -> int:
    row = await PurgeRepository(database).append(
        tenant_id=tenant.tenant_id,
        kind=kind,  # type: ignore[arg-type]
        value=value,
        mode="hard",
        actor="cli",
        reason=reason,
        now_s=1.0,
    )
    return row.seq


async def values(database: Database, tenant: TenantRecord) -> list[tuple[str, str, str]]:
    rows = await PurgeRepository(database).since(tenant.tenant_id, 0)
    return [(row.kind, row.value, row.reason) for row in rows]


async def marked(database: Database, tenant_id: str) -> None:
    async def work(connection: AsyncConnection) -> None:
        mark = {"tenant_id": tenant_id, "route": "m", "score": 0.9, "right": True, "how": "audit", "models": "x"}
        await connection.execute(insert(BUDGET_MARKS).values(at=1.0, **mark))

    await database.write(work)


async def test_a_tenants_records_keep_ids_and_sequences(database: Database, tenant: TenantRecord) -> None:
    tenants, erasing = TenantRepository(database), ErasingRepository(database)
    other = await tenants.create("other", "test", 1.0)
    for name in ("acme", "other"):
        await KeyRepository(database).create(name, "secret label", "cli", 1.0)
    for one in (tenant, other):
        await purged(database, one, "tag", "a name")
        await marked(database, one.tenant_id)
    assert await erasing.tenant_left(tenant.tenant_id) > 5
    await erasing.disable(tenant.tenant_id, 2.0)
    done = await erasing.blank_tenant(tenant.tenant_id)
    assert done.found >= 6
    assert await erasing.tenant_left(tenant.tenant_id) == 0
    assert (await erasing.blank_tenant(tenant.tenant_id)).found == 0
    assert await values(database, tenant) == [("all", "", "")]
    after = await tenants.find(tenant.tenant_id)
    assert (after.name, after.disabled_at) == (f"erased.{tenant.tenant_id.lower()}", 2.0)
    told = [row for row in await AuditRepository(database).since() if row.tenant_id == tenant.tenant_id]
    assert {row.detail for row in told} == {"{}"}
    assert [row.action for row in told] == ["tenant.create", "key.create", "purge"]
    assert await KeyRepository(database).list(tenant.tenant_id) == []
    assert await values(database, other) == [("tag", "a name", "left us")]
    assert len(await KeyRepository(database).list("other")) == 1
    assert (await tenants.create("acme", "test", 3.0)).tenant_id != tenant.tenant_id, "the name is free again"


async def test_a_user_is_named_by_a_digest(database: Database, tenant: TenantRecord) -> None:
    erasing = ErasingRepository(database)
    digest = f"#{person('user', USER).hex()}"
    await purged(database, tenant, "user", USER)
    await purged(database, tenant, "user", "u-1_@example.org")
    await purged(database, tenant, "tag", USER)
    await purged(database, tenant, "user", digest, "erasure E1")
    said = (tenant.tenant_id, USER, digest)
    assert await erasing.user_left(*said) == 4, "the log, and the audit thrice: a tag may name them too"
    assert (await erasing.blank_user(*said)).found == 4
    assert await erasing.user_left(*said) == 0
    assert await values(database, tenant) == [
        ("user", digest, ""),
        ("user", "u-1_@example.org", "left us"),
        ("tag", USER, "left us"),
        ("user", digest, "erasure E1"),
    ]
    audit = "".join(row.detail for row in await AuditRepository(database).since())
    assert digest not in audit
    assert f'"{USER}"' not in audit


async def test_proofs_are_kept_found_and_never_blanked(database: Database, tenant: TenantRecord) -> None:
    erasing = ErasingRepository(database)
    ids = [make_erasure_id() for _ in range(3)]
    for erasure_id in ids:
        await erasing.record(BEGUN, tenant.tenant_id, erasure_id, ("admin", 1.0), {"scope": "tenant"})
    await erasing.record(DONE, tenant.tenant_id, ids[0], ("admin", 2.0), {"report": {"complete": True}})
    await erasing.blank_tenant(tenant.tenant_id)
    begun, done = await erasing.rows_of(ids[0])
    assert (begun.action, json.loads(done.detail)) == (BEGUN, {"report": {"complete": True}})
    assert [row.target for row in await erasing.begun(None, None, 10)] == ids[::-1]
    page = await erasing.begun(frozenset({tenant.tenant_id}), begun.audit_id + 2, 1)
    assert [row.target for row in page] == [ids[1]]
    assert await erasing.begun(frozenset({"T0"}), None, 10) == []


KEPT = {
    "tenants": "renamed and shut out; the sequences hold back what is older",
    "purge_log": "blanked to purges of everything",
    "purge_members": "digests of requests, which the log's rows refer to",
    "audit": "blanked to ids and times",
    "data_keys": "ids; what opens anything is gone",
    "semantic_rows": "removed by their own store, with their vectors",
    "semantic_vectors": "removed with their rows",
    "semantic_deletions": "numbers of rows",
    "counters": "numbers of no tenant",
    "ledger": "numbers by tenant id",
    "ledger_flushes": "numbers of no tenant",
    "admin_tokens": "of operators",
    "admin_once": "answers to operators, encrypted, for a day",
}
"""Tables that `blank_tenant` does not empty, and why."""


def test_every_table_is_emptied_or_said_to_be_kept() -> None:
    for module in pkgutil.iter_modules(db.__path__):
        importlib.import_module(f"{db.__name__}.{module.name}")
    emptied = {
        part.change.table.name for part in erasing_module._of_tenant("T") if isinstance(part.change, Delete)
    }
    assert emptied | KEPT.keys() == METADATA.tables.keys(), "a new table: erase it, or say why it stays"
    assert not emptied & KEPT.keys()


def test_postgresql_rebuilds_every_table_that_an_erasure_changes() -> None:
    parts = [*erasing_module._of_tenant("T"), *erasing_module._of_user("T", "u", "#d")]
    by_stores = {"semantic_rows", "semantic_vectors", "data_keys"}
    assert {part.change.table.name for part in parts} | by_stores == set(postgres._ERASED_FROM)


NO_WORDS = {"route", "models", "limits", "modes", "actor"}
"""Columns of any length that say nothing of a tenant's users, or that an erasure keeps."""


async def test_statistics_of_postgresql_hold_no_words(migrated_postgres: str) -> None:
    unbounded = {
        (table, column.name)
        for table in postgres._ERASED_FROM
        for column in METADATA.tables[table].columns
        if isinstance(column.type, Text | LargeBinary) and column.type.length is None
    }

    async def work(connection: AsyncConnection) -> set[tuple[str, str]]:
        query = "SELECT attrelid::regclass::text, attname FROM pg_attribute WHERE attstattarget = 0 AND attnum > 0"
        return {(row[0], row[1]) for row in await connection.execute(text(query))}

    opened = Database.open(migrated_postgres, deadline_s=PATIENCE_S)
    unsampled = await opened.read(work)
    await opened.close()
    assert {one for one in unbounded if one[1] not in NO_WORDS} <= unsampled, "a new column: have no samples kept"
    assert ("tenants", "name") in unsampled


def rows_of(tenant_id: str, numbers: Sequence[int]) -> list[NewRow]:
    return [
        NewRow(
            tenant_id=tenant_id,
            family=b"f" * 32,
            partition=number.to_bytes(32, "big"),
            asked=b"a" * 32,
            question=b"q",
            key=b"k" * 32,
            route="m",
            sealed=b"s",
            as_of=0,
            created_at=1.0,
            expires_at=1e12,
        )
        for number in numbers
    ]


async def test_rows_come_in_pages_and_stray_vectors_go(database: Database, tenant: TenantRecord) -> None:
    erasing, rows = ErasingRepository(database), SemanticRows(database)
    last = await rows.put(rows_of(tenant.tenant_id, range(5)))
    assert await erasing.last_change() == last
    first = await erasing.rows_after(tenant.tenant_id, -1, 2)
    rest = await erasing.rows_after(tenant.tenant_id, first[-1].row, 10)
    numbers = [row.row for row in (*first, *rest)]
    assert (len(first), len(rest), numbers) == (2, 3, sorted(numbers))
    assert await erasing.rows_after("T0", -1, 10) == []

    async def put_vectors(connection: AsyncConnection) -> None:
        for row in (numbers[0], 10_000):
            await connection.execute(insert(SEMANTIC_VECTORS).values(row=row, models="m", vector=b"v"))

    await database.write(put_vectors)
    assert await erasing.vectors_left([]) == 1
    assert await erasing.vectors_left(numbers) == 2
    assert await erasing.drop_stray_vectors() == 1
    await rows.remove(tenant.tenant_id, numbers)
    assert await erasing.vectors_left(numbers) == 0


async def test_files_are_scrubbed(database: Database, tenant: TenantRecord) -> None:
    record = DataKeyRecord("D" + "0" * 16, tenant.tenant_id, b"canary-of-a-key" * 4, "a" * 16, 1.0)
    await DataKeyRepository(database).add(record, "test")
    await DataKeyRepository(database).destroy(tenant.tenant_id, "test", 2.0)
    note = await database.scrub()
    if database.dialect == "postgresql":
        assert "`VACUUM FULL semantic_rows" in note
        return
    assert note == ""

    async def path(connection: AsyncConnection) -> str:
        return str((await connection.execute(text("PRAGMA database_list"))).one()[2])

    file = await database.read(path)
    for suffix in ("", "-wal"):
        with open(file + suffix, "rb") as stream:  # noqa: ASYNC230, PTH123  (a small file, in a test)
            assert b"canary-of-a-key" not in stream.read()
