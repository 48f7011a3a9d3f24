"""Registered versions in both databases: graph, purges, sequences and audit change together or not at all."""

import asyncio
import json

import pytest

from gateway.db import AuditRepository, Database, PurgeRepository, RecordError, TenantRecord, TenantRepository
from gateway.db.dependencies import KEPT_RETIRED, By, Changed, VersionRepository
from gateway.db.records import PurgeMode
from policies.dependencies import Ref, Version
from policies.fingerprints import NOTHING_KNOWN, segments_of

HELP = segments_of("You help the customers of {{company}} with their orders.")


def by(now_s: float = 2000.0, mode: PurgeMode = "hard") -> By:
    return By("test", mode, now_s)


def version(name: str, number: str = "1", *on: str, kind: str = "prompt", **fields: object) -> Version:
    return Version(name, number, kind, tuple(Ref.parse(text) for text in on), **fields)  # type: ignore[arg-type]


@pytest.fixture
def versions(database: Database) -> VersionRepository:
    return VersionRepository(database)


async def chain(versions: VersionRepository, tenant: str | None) -> None:
    """A page on a prompt on a knowledge base, and a prompt beside them."""
    await versions.register(tenant, version("kb", kind="knowledge_base"), by())
    await versions.register(tenant, version("help", "1", "kb", prints=("aa" * 16,), templates=(HELP,)), by())
    await versions.register(tenant, version("page", "1", "help", models=("m",)), by())
    await versions.register(tenant, version("other", "1", prints=("bb" * 16,)), by())


async def logged(database: Database, tenant: TenantRecord, after: int = 0) -> list[tuple[str, str, str]]:
    return [
        (row.kind, row.value, row.mode) for row in await PurgeRepository(database).since(tenant.tenant_id, after)
    ]


async def test_a_change_purges_what_stands_on_it(
    database: Database, tenant: TenantRecord, versions: VersionRepository
) -> None:
    await chain(versions, "acme")
    seen = await TenantRepository(database).state(tenant.tenant_id)
    assert seen is not None
    assert seen.auth_seq == 4
    changed = await versions.register("acme", version("kb", "2", kind="knowledge_base"), by(2001.0, "soft"))
    assert changed.outcome == "registered"
    assert {str(one.ref) for one in changed.taken.versions} == {"kb@1", "help@1", "page@1"}
    rows = await logged(database, tenant, seen.purge_seq)
    assert ("version", "kb=1", "soft") in rows
    assert ("print", "aa" * 16, "soft") in rows
    assert ("model", "m", "soft") in rows
    assert not any("other" in value or "bb" in value for _, value, _ in rows)
    assert len(rows) == changed.purges
    assert changed.heads == {tenant.tenant_id: (5, seen.purge_seq + len(rows))}
    after = {str(row.version.ref): row.retired_at for row in await versions.visible(tenant.tenant_id)}
    assert after == {"help@1": None, "kb@1": 2001.0, "kb@2": None, "other@1": None, "page@1": None}
    audited = [row for row in await AuditRepository(database).since() if row.action == "version.register"]
    assert audited[-1].target == "kb@2"
    assert set(json.loads(audited[-1].detail)["taken"]) == {"kb@1", "help@1", "page@1"}


async def test_the_same_again_changes_nothing(
    database: Database, tenant: TenantRecord, versions: VersionRepository
) -> None:
    await chain(versions, "acme")
    before = await TenantRepository(database).state(tenant.tenant_id)
    again = await versions.register("acme", version("kb", kind="knowledge_base"), by(3000.0))
    assert (again.outcome, again.purges) == ("unchanged", 0)
    assert await TenantRepository(database).state(tenant.tenant_id) == before
    assert before is not None
    assert again.heads == {tenant.tenant_id: (before.auth_seq, before.purge_seq)}


async def test_what_is_registered_again_with_other_content_takes_its_own(
    database: Database, tenant: TenantRecord, versions: VersionRepository
) -> None:
    await chain(versions, "acme")
    changed = await versions.register("acme", version("kb", kind="knowledge_base", content="b"), by())
    assert (changed.outcome, {str(one.ref) for one in changed.taken.versions}) == (
        "changed",
        {"kb@1", "help@1", "page@1"},
    )
    linked = await versions.register("acme", version("other", "1", "kb", prints=("bb" * 16,)), by())
    assert (linked.outcome, linked.purges) == ("linked", 0)
    assert (await AuditRepository(database).since())[-1].target == "other@1"


async def test_retiring_takes_what_stands_on_it_once(tenant: TenantRecord, versions: VersionRepository) -> None:
    await chain(versions, "acme")
    retired = await versions.retire("acme", Ref("help", "1"), by())
    assert {str(one.ref) for one in retired.taken.versions} == {"help@1", "page@1"}
    assert (await versions.retire("acme", Ref("help", "1"), by())).outcome == "unchanged"
    back = await versions.register(
        "acme", version("help", "1", "kb", prints=("aa" * 16,), templates=(HELP,)), by()
    )
    assert back.outcome == "live"
    with pytest.raises(RecordError, match="not registered"):
        await versions.retire("acme", Ref("nobody", "1"), by())


async def test_what_makes_no_sense_changes_nothing(
    database: Database, tenant: TenantRecord, versions: VersionRepository
) -> None:
    await chain(versions, "acme")
    before = await TenantRepository(database).state(tenant.tenant_id)
    rows = await versions.visible(tenant.tenant_id)
    for odd, reason in (
        (version("kb", "2", "page", kind="knowledge_base"), "conflict"),
        (version("kb", "2", kind="model"), "conflict"),
        (version("kb", "2", "nobody", kind="knowledge_base"), "invalid"),
        (version("kb", "2", kind="thing"), "invalid"),
    ):
        with pytest.raises(RecordError) as refused:
            await versions.register("acme", odd, by())
        assert refused.value.reason == reason
    with pytest.raises(RecordError, match="kb@2 -> page@1 -> help@1 -> kb@2"):
        await versions.register("acme", version("kb", "2", "page", kind="knowledge_base"), by())
    assert await versions.visible(tenant.tenant_id) == rows
    assert await TenantRepository(database).state(tenant.tenant_id) == before


async def test_what_is_for_all_goes_with_what_each_tenant_has_on_it(
    database: Database, tenant: TenantRecord, versions: VersionRepository
) -> None:
    other = await TenantRepository(database).create("other", "test", 1000.0)
    await versions.register(None, version("kb", kind="knowledge_base"), by())
    await versions.register("acme", version("help", "1", "kb", prints=("aa" * 16,)), by())
    marks = {one.tenant_id: one.purge_seq for one in await TenantRepository(database).list()}
    changed = await versions.register(None, version("kb", "2", kind="knowledge_base"), by())
    assert ("print", "aa" * 16, "hard") in await logged(database, tenant, marks[tenant.tenant_id])
    assert await logged(database, other, marks[other.tenant_id]) == [
        ("version", "kb=?", "hard"),
        ("version", "kb=1", "hard"),
    ]
    heads = {one.tenant_id: (one.auth_seq, one.purge_seq) for one in await TenantRepository(database).list()}
    assert changed.heads == heads
    assert [str(row.version.ref) for row in await versions.visible(other.tenant_id)] == ["kb@1", "kb@2"]


async def test_a_name_is_a_tenants_or_everybodys(tenant: TenantRecord, versions: VersionRepository) -> None:
    await versions.register(None, version("kb"), by())
    await versions.register("acme", version("help"), by())
    with pytest.raises(RecordError, match="for every tenant already"):
        await versions.register("acme", version("kb", "2"), by())
    with pytest.raises(RecordError, match="by a tenant already"):
        await versions.register(None, version("help", "2"), by())
    with pytest.raises(RecordError, match="not registered here"):
        await versions.retire("acme", Ref("kb", "1"), by())


async def test_a_worker_is_told_names_and_templates(tenant: TenantRecord, versions: VersionRepository) -> None:
    assert await versions.known(tenant.tenant_id) is NOTHING_KNOWN
    await chain(versions, "acme")
    await versions.register(None, version("policy", kind="policy"), by())
    known = await versions.known(tenant.tenant_id)
    assert known.names.keys() == {"kb", "help", "page", "other", "policy"}
    assert [(one.name, one.segments) for one in known.templates] == [("help", HELP)]


async def test_old_retired_versions_are_forgotten(tenant: TenantRecord, versions: VersionRepository) -> None:
    await versions.register("acme", version("help", "0"), by())
    await versions.register("acme", version("pinned", "1", "help@0"), by())
    for number in range(1, KEPT_RETIRED + 5):
        await versions.register("acme", version("help", str(number)), by(2000.0 + number))
    kept = [row.version.version for row in await versions.visible(tenant.tenant_id) if row.version.name == "help"]
    assert "0" in kept
    assert "1" not in kept
    assert len(kept) <= KEPT_RETIRED + 3


async def test_concurrent_changes_come_one_after_another(
    database: Database, records_url: str, tenant: TenantRecord
) -> None:
    patient = Database.open(records_url, deadline_s=20)
    versions = VersionRepository(patient)

    async def one(number: int) -> Changed:
        return await versions.register(
            "acme" if number % 3 else None, version(f"n{number % 3}", str(number)), by(2000.0 + number)
        )

    done = await asyncio.gather(*(one(number) for number in range(12)))
    assert [changed.outcome for changed in done] == ["registered"] * 12
    live = [row.version.name for row in await versions.visible(tenant.tenant_id) if row.retired_at is None]
    await patient.close()
    state = await TenantRepository(database).state(tenant.tenant_id)
    assert state is not None
    rows = await PurgeRepository(database).since(tenant.tenant_id, 0)
    assert [row.seq for row in rows] == list(range(1, state.purge_seq + 1))
    assert state.auth_seq == 12
    assert sorted(live) == ["n0", "n1", "n2"]
