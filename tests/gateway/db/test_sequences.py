"""Sequences under everything at once: no gap, no repeat, never backwards, also over crashes."""

import asyncio
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from gateway.db import (
    AuditRepository,
    Database,
    KeyRepository,
    PurgeRepository,
    PurgeRow,
    RecordError,
    TenantRepository,
)

T = TypeVar("T")
PATIENCE_S = 20.0


@pytest.mark.slow
async def test_200_purges_by_many_tasks_over_two_openings(records_url: str) -> None:
    opened = [Database.open(records_url, deadline_s=PATIENCE_S) for _ in range(2)]
    tenants = [await TenantRepository(opened[0]).create(name, "test", 1.0) for name in ("acme", "other")]

    async def purge(database: Database, tenant_id: str, count: int) -> list[int]:
        purges = PurgeRepository(database)
        rows = [await purges.append(tenant_id, "all", "", "hard", "t", "", 1.0) for _ in range(count)]
        return [row.seq for row in rows]

    work = [(database, tenant.tenant_id) for database in opened for tenant in tenants for _ in range(5)]
    seqs = await asyncio.gather(*(purge(database, tenant_id, 10) for database, tenant_id in work))
    for tenant in tenants:
        own = [seq for (_, owner), got in zip(work, seqs, strict=True) if owner == tenant.tenant_id for seq in got]
        assert sorted(own) == list(range(1, 101))
        log = await PurgeRepository(opened[1]).since(tenant.tenant_id, 0)
        assert [row.seq for row in log] == list(range(1, 101))
        audit = await AuditRepository(opened[1]).since(tenant_id=tenant.tenant_id)
        targets = Counter(row.target for row in audit if row.action == "purge")
        assert targets == {str(seq): 1 for seq in range(1, 101)}
    for database in opened:
        assert database.checked_out == 0
        await database.close()


async def test_whoever_sees_a_number_finds_every_row_up_to_it(database: Database) -> None:
    acme = await TenantRepository(database).create("acme", "test", 1.0)
    purges = PurgeRepository(database)

    async def write() -> None:
        for _ in range(30):
            await purges.append(acme.tenant_id, "all", "", "hard", "t", "", 1.0)

    async def watch() -> None:
        seen = 0
        while seen < 60:
            _, head = (await purges.heads())[acme.tenant_id]
            assert head >= seen
            rows = await purges.since(acme.tenant_id, seen)
            assert [row.seq for row in rows][: head - seen] == list(range(seen + 1, head + 1))
            seen = head

    await asyncio.gather(write(), write(), watch())


KILLED = """
import asyncio, os, random, signal, sys, time
from gateway.db import Database, PurgeRepository

async def append_for_ever(url, tenant_id, told):
    purges = PurgeRepository(Database.open(url, deadline_s=20))
    while True:
        row = await purges.append(tenant_id, "all", "", "hard", "t", "", 1.0)
        os.write(told, f"{row.seq}\\n".encode())

dice = random.Random(3)
for _ in range(int(sys.argv[3])):
    hears, tells = os.pipe()
    child = os.fork()
    if child == 0:
        asyncio.run(append_for_ever(sys.argv[1], sys.argv[2], tells))
    os.close(tells)
    with os.fdopen(hears) as heard:
        print(heard.readline(), end="")
        time.sleep(dice.random() * 0.02)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        print(heard.read(), end="")
"""


@pytest.mark.slow
@pytest.mark.parametrize("records_url", ["sqlite"], indirect=True)
async def test_no_acknowledged_purge_is_lost_when_its_writer_is_killed(
    database: Database, records_url: str
) -> None:
    acme = await TenantRepository(database).create("acme", "test", 1.0)
    command = [sys.executable, "-W", "error", "-c", KILLED, records_url, acme.tenant_id, "12"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True, timeout=60)
    acknowledged = [int(line) for line in done.stdout.split()]
    assert len(acknowledged) >= 12
    log = [row.seq for row in await PurgeRepository(database).since(acme.tenant_id, 0)]
    assert log == list(range(1, len(log) + 1))
    assert set(acknowledged) <= set(log)
    assert len(log) - len(acknowledged) <= 12, "at most the one under way at each kill"
    _, head = (await PurgeRepository(database).heads())[acme.tenant_id]
    assert head == len(log)


@dataclass
class Model:
    """What one tenant must look like."""

    tenant_id: str
    name: str
    disabled: bool = False
    auth_seq: int = 0
    log: list[PurgeRow] = field(default_factory=list)
    keys: dict[str, bool] = field(default_factory=dict)


class Records(RuleBasedStateMachine):
    """Any order of changes, the database opened anew in between, against a model held in memory."""

    url = ""
    examples = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).examples += 1
        self.runner = asyncio.Runner()
        self.models: list[Model] = []
        self.seen: dict[str, tuple[int, int]] = {}
        self.open()

    def open(self) -> None:
        self.database = Database.open(self.url, deadline_s=PATIENCE_S)
        self.tenants, self.keys = TenantRepository(self.database), KeyRepository(self.database)
        self.purges = PurgeRepository(self.database)

    def teardown(self) -> None:
        self.runner.run(self.database.close())
        self.runner.close()

    def pick(self, index: int) -> Model:
        return self.models[index % len(self.models)]

    @rule()
    def open_anew(self) -> None:
        self.runner.run(self.database.close())
        self.open()

    @precondition(lambda self: len(self.models) < 3)
    @rule()
    def create_tenant(self) -> None:
        name = f"t{self.examples}-{len(self.models)}"
        record = self.runner.run(self.tenants.create(name, "test", 1.0))
        self.models.append(Model(record.tenant_id, name))

    @precondition(lambda self: self.models)
    @rule(index=st.integers(0, 2))
    def create_key(self, index: int) -> None:
        model = self.pick(index)
        try:
            record, _ = self.runner.run(self.keys.create(model.name, "", "test", 1.0))
        except RecordError:
            assert model.disabled
            return
        assert not model.disabled
        model.keys[record.key_id] = False
        model.auth_seq += 1

    @precondition(lambda self: any(model.keys for model in self.models))
    @rule(data=st.data())
    def revoke_key(self, data: st.DataObject) -> None:
        model, key_id = data.draw(st.sampled_from([(model, key) for model in self.models for key in model.keys]))
        self.runner.run(self.keys.revoke(key_id, "test", 2.0))
        model.auth_seq += not model.keys[key_id]
        model.keys[key_id] = True

    @precondition(lambda self: self.models)
    @rule(index=st.integers(0, 2))
    def disable(self, index: int) -> None:
        model = self.pick(index)
        self.runner.run(self.tenants.disable(model.tenant_id, "test", 3.0))
        model.auth_seq += not model.disabled
        model.disabled = True

    @precondition(lambda self: self.models)
    @rule(index=st.integers(0, 2), tag=st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=5))
    def purge(self, index: int, tag: str) -> None:
        model = self.pick(index)
        try:
            row = self.runner.run(self.purges.append(model.tenant_id, "tag", tag, "soft", "test", tag, 4.0))
        except RecordError:
            assert tag == ""
            return
        assert row.seq == len(model.log) + 1
        model.log.append(row)

    @invariant()
    def the_database_equals_the_model(self) -> None:
        heads = self.runner.run(self.purges.heads())
        for model in self.models:
            head = heads[model.tenant_id]
            assert head == (model.auth_seq, len(model.log))
            before = self.seen.get(model.tenant_id, (0, 0))
            assert head[0] - before[0] in {0, 1}
            assert head[1] - before[1] in {0, 1}
            self.seen[model.tenant_id] = head

    @precondition(lambda self: self.models)
    @rule(index=st.integers(0, 2))
    def read_back(self, index: int) -> None:
        model = self.pick(index)
        state = self.runner.run(self.tenants.state(model.tenant_id))
        assert state is not None
        assert (state.disabled, state.auth_seq, state.purge_seq) == (
            model.disabled,
            model.auth_seq,
            len(model.log),
        )
        assert {key.key_id: key.revoked for key in state.keys} == model.keys
        middle = len(model.log) // 2
        assert self.runner.run(self.purges.since(model.tenant_id, middle)) == model.log[middle:]


@pytest.mark.slow
def test_any_history_of_changes_equals_the_model(records_url: str) -> None:
    machine = type("RecordsHere", (Records,), {"url": records_url})
    run_state_machine_as_test(machine, settings=settings(max_examples=6, stateful_step_count=20))
