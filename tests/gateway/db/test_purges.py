"""Many purges in one transaction, by meaning with what they take, and listed by pages."""

import asyncio
import json
import random
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.db import (
    AuditRepository,
    Database,
    NewPurge,
    PurgeRepository,
    PurgeRow,
    RecordError,
    TenantRecord,
    TenantRepository,
)
from gateway.db.records import PurgeKind, PurgeMode
from policies.purge_scopes import Purge, members_value
from policies.purges import PurgeIndex
from tests.servers.sqlite import open_migrated

KEYS = tuple(bytes([number]) * 32 for number in range(4))


def tagged(tenant_id: str, value: str) -> NewPurge:
    return NewPurge(tenant_id, "tag", value, "hard", "ann", "why not")


async def test_many_purges_keep_their_order_in_each_tenant(database: Database) -> None:
    acme, other = [await TenantRepository(database).create(name, "cli", 1.0) for name in ("acme", "other")]
    purges = PurgeRepository(database)
    await purges.append(acme.tenant_id, "all", "", "hard", "cli", "", 1.0)
    asked = [
        tagged(tenant.tenant_id, str(number)) for number, tenant in enumerate([other, acme, acme, other, acme])
    ]
    appended = await purges.append_all(asked, 2.0)
    assert [(row.value, row.seq) for row in appended.rows] == [("0", 1), ("1", 2), ("2", 3), ("3", 2), ("4", 4)]
    assert appended.heads == await purges.heads() == {acme.tenant_id: (0, 4), other.tenant_id: (0, 2)}
    assert [row.value for row in await purges.since(acme.tenant_id, 1)] == ["1", "2", "4"]
    audit = await AuditRepository(database).since(tenant_id=acme.tenant_id)
    told = [(row.actor, row.target, json.loads(row.detail)["value"]) for row in audit if row.action == "purge"]
    assert told == [("cli", "1", ""), ("ann", "2", "1"), ("ann", "3", "2"), ("ann", "4", "4")]


async def test_one_purge_that_cannot_be_leaves_none(database: Database, tenant: TenantRecord) -> None:
    purges = PurgeRepository(database)
    good = tagged(tenant.tenant_id, "a")
    nobody, nothing = (
        tagged("T0000000000000000", "a"),
        NewPurge(tenant.tenant_id, "age", "soon", "hard", "ann", ""),
    )
    for bad, reason in ((nobody, "not_found"), (nothing, "invalid")):
        with pytest.raises(RecordError) as refused:
            await purges.append_all([good, bad], 2.0)
        assert refused.value.reason == reason
    assert await purges.heads() == {tenant.tenant_id: (0, 0)}
    assert await purges.since(tenant.tenant_id, 0) == []


async def test_a_purge_by_meaning_lists_what_it_takes(database: Database, tenant: TenantRecord) -> None:
    purges = PurgeRepository(database)
    asked = [
        NewPurge(tenant.tenant_id, "meaning", members_value(members), "soft", "ann", "", members)
        for members in (KEYS[:3], (), KEYS[1:])
    ]
    asked.insert(1, tagged(tenant.tenant_id, "a"))
    await purges.append_all(asked, 2.0)
    rows = await purges.since(tenant.tenant_id, 0)
    assert [row.members for row in rows] == [KEYS[:3], (), (), KEYS[1:]]
    assert [row.members for row in await purges.since(tenant.tenant_id, 1)] == [(), (), KEYS[1:]]
    for members, value in ((KEYS[:2], members_value(KEYS[:3])), (KEYS[:1], "1"), ((), "")):
        with pytest.raises(RecordError):
            await purges.append_all([NewPurge(tenant.tenant_id, "meaning", value, "hard", "a", "", members)], 2.0)
    with pytest.raises(RecordError):
        await purges.append_all([NewPurge(tenant.tenant_id, "tag", "a", "hard", "a", "", KEYS[:1])], 2.0)


KINDS = ("all", "user", "session", "tag", "key", "model", "route")


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(["hard", "soft"])), max_size=8))
def test_the_prefix_epochs_are_those_of_the_index(drawn: list[tuple[PurgeKind, PurgeMode]]) -> None:
    async def compared(path: str) -> None:
        database = await open_migrated(f"sqlite:///{path}/lamina.db")
        tenants = [await TenantRepository(database).create(name, "cli", 1.0) for name in ("acme", "quiet")]
        purges = PurgeRepository(database)
        values = {"all": "", "key": "ab" * 32}
        rows = [(tenants[0].tenant_id, kind, values.get(kind, "x"), mode) for kind, mode in drawn]
        await purges.append_all([NewPurge(*row, "ann", "") for row in rows], 2.0)
        index = PurgeIndex()
        kept = await purges.since(tenants[0].tenant_id, 0)
        index.fold([Purge(row.seq, row.kind, row.value, row.mode) for row in kept], len(kept))
        assert (await purges.prefix_epochs()).get(tenants[0].tenant_id, 0) == index.prefix_epoch
        assert tenants[1].tenant_id not in await purges.prefix_epochs()
        await database.close()

    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        runner.run(compared(folder))


async def test_purges_are_listed_by_pages_the_latest_first(database: Database) -> None:
    tenants = [await TenantRepository(database).create(name, "cli", 1.0) for name in ("acme", "other", "third")]
    purges = PurgeRepository(database)
    written: list[PurgeRow] = []
    for at in (1.0, 2.0, 2.0, 3.0):
        asked = [tagged(tenant.tenant_id, f"{at}") for tenant in tenants for _ in range(2)]
        written.extend((await purges.append_all(asked, at)).rows)

    async def all_of(tenant_ids: frozenset[str] | None) -> list[PurgeRow]:
        found: list[PurgeRow] = []
        while page := await purges.page(tenant_ids, found[-1] if found else None, 5):
            found.extend(page)
        return found

    expected = sorted(written, key=lambda row: (-row.at, row.tenant_id, -row.seq))
    assert await all_of(None) == expected
    two = frozenset(tenant.tenant_id for tenant in tenants[:2])
    assert await all_of(two) == [row for row in expected if row.tenant_id in two]
    assert await purges.page(frozenset(), None, 5) == []


@pytest.mark.slow
async def test_1000_shuffled_purges_at_once_are_one_order_and_one_audit_row_each(records_url: str) -> None:
    opened = [Database.open(records_url, deadline_s=60) for _ in range(2)]
    tenants = [
        (await TenantRepository(opened[0]).create(f"t{number}", "test", 1.0)).tenant_id for number in range(3)
    ]
    asked = [tagged(tenants[number % 3], str(number)) for number in range(1000)]
    random.Random(7).shuffle(asked)
    groups = [asked[start : start + size] for start, size in zip(range(0, 1000, 4), [1, 4] * 125, strict=True)]
    groups += [[purge] for start in range(0, 1000, 8) for purge in asked[start + 1 : start + 4]]
    assert sum(map(len, groups)) == 1000
    done = await asyncio.gather(
        *(PurgeRepository(opened[number % 2]).append_all(group, 2.0) for number, group in enumerate(groups))
    )
    for tenant_id in tenants:
        acknowledged = {row.seq: row.value for told in done for row in told.rows if row.tenant_id == tenant_id}
        log = await PurgeRepository(opened[1]).since(tenant_id, 0)
        assert [row.seq for row in log] == list(range(1, len(log) + 1))
        assert acknowledged == {row.seq: row.value for row in log}
        audit = await AuditRepository(opened[0]).since(tenant_id=tenant_id)
        told = [(row.target, json.loads(row.detail)["value"]) for row in audit if row.action == "purge"]
        assert sorted(told) == sorted((str(row.seq), row.value) for row in log)
        assert [int(target) for target, _ in told] == list(range(1, len(log) + 1)), "in the order of the log"
    for database in opened:
        await database.close()
