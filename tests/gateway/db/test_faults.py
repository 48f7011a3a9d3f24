"""A database that is locked, frozen, killed or foreign: one clear error in time, and nothing leaks."""

import asyncio
import contextlib
import fcntl
import random
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
import sqlalchemy.exc

from gateway.db import Database, PurgeRepository, TenantRecord, TenantRepository
from gateway.db.faults import FOREIGN_ERRORS, unavailable
from gateway.errors import DatabaseUnavailable
from tests.servers.postgres import PostgresServer
from tests.servers.sqlite import PATIENCE_S

DEADLINE_S = 0.5
SLACK_S = 1.0


@pytest.fixture
async def hasty(records_url: str, tenant: TenantRecord) -> AsyncIterator[Database]:
    """A second opening of the same database, with little patience."""
    database = Database.open(records_url, deadline_s=DEADLINE_S)
    yield database
    await database.close()


@contextlib.contextmanager
def fails_in_time() -> Iterator[None]:
    start_s = time.monotonic()
    with pytest.raises(DatabaseUnavailable) as caught:
        yield
    assert time.monotonic() - start_s < DEADLINE_S + SLACK_S
    assert "\n" not in str(caught.value)


async def settle(database: Database) -> None:
    """Waits until every connection is back, for the few seconds a driver may take to let go of one."""
    for _ in range(300):
        if database.checked_out == 0:
            return
        await asyncio.sleep(0.01)
    assert database.checked_out == 0


async def append(database: Database, tenant: TenantRecord) -> int:
    row = await PurgeRepository(database).append(tenant.tenant_id, "all", "", "hard", "test", "", 1.0)
    return row.seq


async def append_at_last(database: Database, tenant: TenantRecord) -> int:
    """Appends with little patience on a machine that may be busy."""
    for _ in range(10):
        with contextlib.suppress(DatabaseUnavailable):
            return await append(database, tenant)
    return await append(database, tenant)


@pytest.mark.slow
@pytest.mark.parametrize("records_url", ["sqlite"], indirect=True)
async def test_a_foreign_lock_on_sqlite_stops_writers_in_time_and_no_reader(
    hasty: Database, tenant: TenantRecord, tmp_path: Path
) -> None:
    foreign = sqlite3.connect(tmp_path / "lamina.db", isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    for _ in range(3):
        with fails_in_time():
            await append(hasty, tenant)
        assert await TenantRepository(hasty).state(tenant.tenant_id) is not None
    foreign.execute("ROLLBACK")
    foreign.close()
    assert await append_at_last(hasty, tenant) == 1
    await settle(hasty)


@pytest.mark.parametrize("records_url", ["sqlite"], indirect=True)
async def test_a_frozen_writer_of_ours_stops_other_writers_in_time(
    hasty: Database, tenant: TenantRecord, tmp_path: Path
) -> None:
    with (tmp_path / "lamina.db.lock").open("r+") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        with fails_in_time():
            await append(hasty, tenant)
    assert await append_at_last(hasty, tenant) == 1


async def test_a_killed_postgresql_fails_at_once_and_comes_back(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    database = Database.open(postgres_url, deadline_s=PATIENCE_S)
    await database.migrate()
    tenant = await TenantRepository(database).create("acme", "test", 1.0)
    assert await append(database, tenant) == 1
    postgres_server.kill()
    try:
        for _ in range(3):
            with fails_in_time():
                await append(database, tenant)
    finally:
        postgres_server.start()
    assert await append(database, tenant) == 2
    assert database.checked_out == 0
    await database.close()


@pytest.mark.slow
async def test_a_frozen_postgresql_fails_in_time_and_comes_back(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    patient = Database.open(postgres_url, deadline_s=PATIENCE_S)
    await patient.migrate()
    tenant = await TenantRepository(patient).create("acme", "test", 1.0)
    database = Database.open(postgres_url, deadline_s=DEADLINE_S)
    assert await append_at_last(database, tenant) == 1
    postgres_server.freeze()
    try:
        for _ in range(2):
            with fails_in_time():
                await append(database, tenant)
    finally:
        postgres_server.thaw()
    await settle(database)
    seen = await append_at_last(database, tenant)
    log = await PurgeRepository(patient).since(tenant.tenant_id, 0)
    assert [row.seq for row in log] == list(range(1, seen + 1))
    await database.close()
    await patient.close()


async def test_connections_cut_by_the_server_are_replaced_unseen(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    database = Database.open(postgres_url, deadline_s=PATIENCE_S)
    await database.migrate()
    tenant = await TenantRepository(database).create("acme", "test", 1.0)
    for seq in (1, 2, 3):
        postgres_server.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'test%'"
        )
        assert await append(database, tenant) == seq
    await database.close()


@pytest.mark.slow
async def test_a_storm_of_cancellations_leaks_no_connection(database: Database, tenant: TenantRecord) -> None:
    dice = random.Random(7)

    async def one() -> int | None:
        return (
            await append(database, tenant) if dice.random() < 0.5 else len(await PurgeRepository(database).heads())
        )

    async def cancelled_soon() -> None:
        task = asyncio.create_task(one())
        await asyncio.sleep(dice.random() * 0.02)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, DatabaseUnavailable):
            await task

    for _ in range(4):
        await asyncio.gather(*(cancelled_soon() for _ in range(50)))
    await settle(database)
    last = await append(database, tenant)
    log = await PurgeRepository(database).since(tenant.tenant_id, 0)
    assert [row.seq for row in log] == list(range(1, last + 1))


async def test_closing_waits_for_the_calls_under_way(records_url: str, tenant: TenantRecord) -> None:
    database = Database.open(records_url, deadline_s=PATIENCE_S)
    under_way = [asyncio.create_task(append(database, tenant)) for _ in range(5)]
    await asyncio.sleep(0)
    await database.close()
    assert sorted(await asyncio.gather(*under_way)) == [1, 2, 3, 4, 5]
    await database.close()
    with pytest.raises(DatabaseUnavailable, match="closed"):
        await append(database, tenant)


async def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    database = Database.open("postgresql://ann:hidden-pw@127.0.0.1:1/lamina", deadline_s=DEADLINE_S)
    with pytest.raises(DatabaseUnavailable) as caught:
        await TenantRepository(database).list()
    assert "hidden-pw" not in str(caught.value) + repr(database)
    await database.close()


async def test_a_file_that_is_no_database_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "lamina.db"
    path.write_bytes(b"not a database, surely" * 100)
    database = Database.open(f"sqlite:///{path}", deadline_s=PATIENCE_S)
    with pytest.raises(DatabaseUnavailable, match="file is not a database"):
        await database.migrate()
    await database.close()


async def test_a_database_without_tables_is_said_so(database_url: str) -> None:
    database = Database.open(database_url, deadline_s=PATIENCE_S)
    with pytest.raises(DatabaseUnavailable, match="tenants"):
        await TenantRepository(database).list()
    await database.close()


def test_every_error_of_the_drivers_is_mapped() -> None:
    for module in (asyncpg.exceptions, sqlite3):
        errors = [
            error
            for error in vars(module).values()
            if isinstance(error, type)
            and issubclass(error, Exception)
            and not issubclass(error, (Warning, sqlite3.Warning))
        ]
        assert len(errors) > 5
        assert [error for error in errors if not issubclass(error, FOREIGN_ERRORS)] == []


def test_a_message_is_one_short_line_without_parameters() -> None:
    secret = "hidden-value"
    error = sqlalchemy.exc.IntegrityError(
        "INSERT", {"key": secret}, sqlite3.IntegrityError(f"duplicate\nDETAIL: {secret}")
    )
    assert str(unavailable(error)) == "the database did not answer: duplicate (IntegrityError)"
    assert len(str(unavailable(sqlite3.OperationalError("x" * 5000)))) < 300
