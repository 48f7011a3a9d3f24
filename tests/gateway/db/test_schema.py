"""The migrations build what `tables.py` says, up and down, also when several start at once."""

import asyncio
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import CheckConstraint, Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.db import Database, KeyRepository, PurgeRepository, TenantRecord, TenantRepository
from gateway.db.schema import BASE, schema_differences
from gateway.db.tables import METADATA
from gateway.errors import DatabaseUnavailable, SettingsError


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
import asyncio, sys
from gateway.db import Database, bootstrap

async def main():
    database = Database.open(sys.argv[1], deadline_s=20)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await database.migrate()
    print(await bootstrap(database, None, 1.0) or "")
    await database.close()

asyncio.run(main())
"""


def start_together(url: str, folder: Path) -> list[str]:
    """Starts three processes far from the checkout, lets them go at one moment, returns what each printed."""
    starts = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", STARTING, url],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for start in starts:
        assert start.stdout is not None
        assert start.stdout.readline() == "ready\n"
    for start in starts:
        assert start.stdin is not None
        start.stdin.close()
        start.stdin = None
    printed = [start.communicate(timeout=60)[0].strip() for start in starts]
    assert [start.returncode for start in starts] == [0, 0, 0]
    return printed


async def test_many_starts_at_once_migrate_once(database_url: str, tmp_path: Path) -> None:
    printed = await asyncio.to_thread(start_together, database_url, tmp_path)
    assert len([key for key in printed if key]) == 1, "exactly one start makes the first key"
    database = Database.open(database_url)
    assert await database.read(differences) == []
    assert [tenant.name for tenant in await TenantRepository(database).list()] == ["default"]
    await database.close()


async def test_two_objects_in_one_process_migrate_one_after_the_other(database_url: str) -> None:
    opened = [Database.open(database_url) for _ in range(3)]
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


async def test_history_cannot_be_rewritten(database: Database, tenant: TenantRecord) -> None:
    await KeyRepository(database).create("acme", "", "cli", 1.0)
    await PurgeRepository(database).append(tenant.tenant_id, "all", "", "hard", "cli", "", 1.0)
    for statement in (
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
