"""The migrations build what `tables.py` says, up and down, also when several start at once."""

import asyncio
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import CheckConstraint, Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db import Database, KeyRepository, NewPurge, PurgeRepository, TenantRecord, TenantRepository
from gateway.db.schema import BASE, schema_differences
from gateway.db.tables import METADATA
from gateway.errors import DatabaseUnavailable, SettingsError
from policies.purge_scopes import members_value
from tests.servers.sqlite import PATIENCE_S


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A database that this test alone has migrated, so that it may change the schema."""
    opened = Database.open(database_url, deadline_s=PATIENCE_S)
    await opened.migrate()
    yield opened
    await opened.close()


async def differences(connection: AsyncConnection) -> list[object]:
    return await connection.run_sync(schema_differences)


async def table_names(connection: AsyncConnection) -> set[str]:
    return set(await connection.run_sync(lambda sync: inspect(sync).get_table_names()))


async def constraint_names(connection: AsyncConnection) -> set[str]:
    def collect(sync: Connection) -> set[str]:
        inspector = inspect(sync)
        return {
            str(check["name"]) for table in METADATA.tables for check in inspector.get_check_constraints(table)
        }

    return await connection.run_sync(collect)


async def test_the_migrations_build_what_the_tables_say(database: Database) -> None:
    assert await database.read(differences) == []
    declared = {
        str(check.name)
        for table in METADATA.tables.values()
        for check in table.constraints
        if isinstance(check, CheckConstraint)
    }
    assert await database.read(constraint_names) == declared


async def test_down_and_up_again(database: Database) -> None:
    await database.migrate(BASE)
    assert await database.read(table_names) == {"alembic_version"}
    await database.migrate()
    await database.migrate()
    assert await database.read(differences) == []


STARTING = """
import asyncio, os, sys
from gateway.db import Database, bootstrap

async def start(url):
    database = Database.open(url, deadline_s=20)
    await database.migrate()
    key = await bootstrap(database, None, 1.0)
    await database.close()
    if key:
        os.write(1, f"{key}\\n".encode())

waits, opens = os.pipe()
for _ in range(4):
    if os.fork() == 0:
        os.close(opens)
        os.read(waits, 1)  # until the parent lets all go at one moment
        asyncio.run(start(sys.argv[1]))
        os._exit(0)
os.close(opens)
assert [os.wait()[1] for _ in range(4)] == [0, 0, 0, 0]
"""


@pytest.mark.slow
async def test_many_starts_at_once_migrate_once(database_url: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", STARTING, database_url]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert len(done.stdout.split()) == 1, "exactly one start makes the first key"
    database = Database.open(database_url, deadline_s=PATIENCE_S)
    assert await database.read(differences) == []
    assert [tenant.name for tenant in await TenantRepository(database).list()] == ["default"]
    await database.close()


async def test_two_objects_in_one_process_migrate_one_after_the_other(database_url: str) -> None:
    opened = [Database.open(database_url, deadline_s=PATIENCE_S) for _ in range(3)]
    await asyncio.gather(*(database.migrate() for database in opened))
    assert await opened[0].read(differences) == []
    for database in opened:
        await database.close()


async def test_a_newer_schema_is_one_clear_line(database: Database) -> None:
    async def pretend(connection: AsyncConnection) -> None:
        await connection.execute(text("UPDATE alembic_version SET version_num = 'from_the_future'"))

    await database.write(pretend)
    with pytest.raises(SettingsError, match="does not know the database's schema"):
        await database.migrate()


async def test_purges_survive_a_way_down_and_up_again(database: Database, tenant: TenantRecord) -> None:
    purges = PurgeRepository(database)
    kept = await purges.append(tenant.tenant_id, "tag", "a", "soft", "cli", "", 1.0)
    await purges.append(tenant.tenant_id, "session", "s", "hard", "cli", "", 2.0)
    for _ in range(4):  # the samples', the versions', the erasure's, then that of the kinds
        await database.migrate("-1")
    await database.migrate()
    first, second = await purges.since(tenant.tenant_id, 0)
    assert first == kept
    assert (second.kind, second.value, second.mode) == ("all", "", "hard"), "as the older version reads it"
    assert await database.read(differences) == []


async def test_history_cannot_be_rewritten(database: Database, tenant: TenantRecord) -> None:
    await KeyRepository(database).create("acme", "", "cli", 1.0)
    members = (b"k" * 32,)
    by_meaning = NewPurge(tenant.tenant_id, "meaning", members_value(members), "hard", "cli", "", members)
    await PurgeRepository(database).append_all([by_meaning], 1.0)
    for statement in (
        "DELETE FROM purge_members",
        "UPDATE purge_members SET seq = 7",
        "DELETE FROM purge_log",
        "UPDATE purge_log SET mode = 'soft'",
        "DELETE FROM audit",
        "UPDATE audit SET actor = 'nobody'",
        "UPDATE tenants SET purge_seq = purge_seq - 1",
        "UPDATE tenants SET auth_seq = auth_seq - 1",
    ):

        async def rewrite(connection: AsyncConnection, statement: str = statement) -> None:
            await connection.execute(text(statement))

        with pytest.raises(DatabaseUnavailable, match=r"append-only|never falls"):
            await database.write(rewrite)


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


async def test_the_sqlite_file_is_private_and_durable(tmp_path: Path) -> None:
    path = tmp_path / "lamina.db"
    database = Database.open(f"sqlite:///{path}")
    await database.migrate()

    async def pragmas(connection: AsyncConnection) -> list[object]:
        names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        return [(await connection.execute(text(f"PRAGMA {name}"))).scalar() for name in names]

    assert await database.read(pragmas) == ["wal", 2, 1, 1500]
    assert modes(tmp_path) == {0o600}
    await database.close()


async def test_postgresql_commits_are_durable_and_statements_bounded(postgres_url: str) -> None:
    database = Database.open(postgres_url)

    async def shown(connection: AsyncConnection) -> list[object]:
        names = ("synchronous_commit", "statement_timeout", "lock_timeout")
        return [(await connection.execute(text(f"SHOW {name}"))).scalar() for name in names]

    assert await database.read(shown) == ["on", "2s", "2s"]
    await database.close()


@pytest.mark.parametrize(
    "url",
    ["sqlite://", "sqlite:///:memory:", "mysql://u:hidden-pw@h/d", "nonsense", "postgresql://u:hidden-pw@h", ""],
)
def test_a_url_that_cannot_work_is_one_line_without_its_password(url: str) -> None:
    with pytest.raises(SettingsError, match=r"^database_url: [^\n]+$") as caught:
        Database.open(url)
    assert "hidden-pw" not in str(caught.value)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match="No such file or directory"):
        Database.open(f"sqlite:///{tmp_path}/absent/lamina.db")
