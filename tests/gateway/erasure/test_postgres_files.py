"""PostgreSQL's files: encrypted, they never hold a question; after an erasure and what its proof asks, no word."""

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from tests.gateway.canaries import holders
from tests.gateway.http.admin.whole import ADMIN, Office
from tests.gateway.semantic_stand import Meaning, meaning
from tests.servers.postgres import PostgresServer, running_postgres
from tests.servers.redis import RedisServer
from tests.upstream import Script

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CANARY, TENANTS = "Quixvanthropole", "Brimblefarquhar"
"""In questions and answers, of the user who is erased first, and of another."""
USER, OTHER = "customer-4711@quixote.example", "customer-4712@quixote.example"
REASON = "Snorklewhistle"
"""In what is said of the user's purge."""
NAME, LABEL, TEMPLATE, TAG = RECORDS = ("grumblesnatch", "Wobbletheodolite", "Flimberjack", "Yarrowquince")
"""In the tenant's records."""
WORDS = (CANARY, TENANTS, USER, OTHER, REASON, *RECORDS)
_INSTRUCTION = f"You answer for the house of {TEMPLATE}, by the name of {{{{name}}}}."


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A server whose files nobody else writes."""
    with running_postgres() as server:
        yield server


def own_files(server: PostgresServer, url: str) -> list[Path]:
    """The database's tables, indexes and statistics."""
    oid = server.ask("SELECT oid FROM pg_database WHERE datname = current_database()", url).strip()
    return list((server.folder / "data" / "base" / oid).iterdir())


def held(server: PostgresServer, url: str) -> set[str]:
    """Those of the words that the database's own files hold."""
    return set().union(*holders(own_files(server, url), *WORDS).values())


def hold_key(server: PostgresServer, url: str, wrapped: bytes) -> bool:
    """Whether they hold a data key as it was wrapped."""
    return any(wrapped in file.read_bytes() for file in own_files(server, url))


def held_anywhere(server: PostgresServer, *words: str) -> set[str]:
    """Those that any file of the server holds, its write-ahead log included."""
    files = [file for file in (server.folder / "data").rglob("*") if file.is_file()]
    return set().union(*holders(files, *words).values())


async def teach(it: Meaning) -> Office:
    """Two users' answers, their vectors, and records with names."""
    key, office = await it.it.tenant(NAME), Office(it.it)
    it.service.told = ()
    for word, user in ((CANARY, USER), (CANARY + " again", USER), (TENANTS, OTHER)):
        it.it.upstream.default = Script(pieces=("It is ", word, " indeed."))
        await it.taught(f"What is the {word} of my house?", key=key, user=user)
    await it.until_rows(3)
    for row in await it.rows():
        await it.change(
            "INSERT INTO semantic_vectors (row, models, vector) "
            "SELECT row, 'words-1', question FROM semantic_rows WHERE row = :row",
            row=row.row,
        )
    purge = {"tenant": NAME, "mode": "soft"}
    said: list[tuple[str, dict[str, Any]]] = [
        ("/purges", {**purge, "kind": "user", "value": USER, "reason": f"{REASON} asked"}),
        ("/purges", {**purge, "kind": "tag", "value": TAG}),
        (f"/tenants/{NAME}/keys", {"label": LABEL}),
        (
            f"/tenants/{NAME}/versions",
            {"name": "support", "version": "1", "kind": "prompt", "instructions": [_INSTRUCTION]},
        ),
    ]
    for path, body in said:
        told = await office.ask("POST", path, body)
        assert told.status in {200, 201}, told
    return office


async def erased(office: Office, tenant: str, **scope: str) -> dict[str, Any]:
    """The proof."""
    told = await office.ask("POST", "/erasures", {"tenant": tenant, **scope})
    assert told.status == 202, told
    give_up_at = time.monotonic() + 120
    while told.body["state"] == "running":
        assert time.monotonic() < give_up_at
        await asyncio.sleep(0.1)
        told = await office.ask("GET", f"/erasures/{told.body['id']}")
    assert told.body["state"] == "done", told
    report: dict[str, Any] = told.body["report"]
    assert report["complete"], report
    return report


async def done_as_told(server: PostgresServer, url: str, report: dict[str, Any]) -> None:
    """Gives the commands that the proof's note names."""
    (note,) = (line["note"] for line in report["stores"] if line["store"] == "database_files")
    for command in re.findall(r"`([^`]+)`", note):
        await asyncio.to_thread(server.execute, command, url)
    await asyncio.to_thread(server.execute, "CHECKPOINT", url)


@pytest.mark.parametrize("encrypted", [True, False], ids=["encrypted", "plain"])
async def test_no_file_of_the_database_holds_a_word_after_an_erasure(
    tmp_path: Path, redis_server: RedisServer, postgres: PostgresServer, encrypted: bool
) -> None:
    changes: dict[str, Any] = {"encryption": {"master_key": SecretStr("m" * 40)}} if encrypted else {}
    with postgres.database() as url:
        changes |= {"database_url": SecretStr(url), "admin_key": SecretStr(ADMIN)}
        async with meaning(tmp_path, redis_server, **changes) as it:
            office = await teach(it)
            for command in ("ANALYZE", "CHECKPOINT"):  # as PostgreSQL does by itself
                await asyncio.to_thread(postgres.execute, command, url)
            stored = set() if encrypted else {CANARY, TENANTS}
            assert held(postgres, url) == {USER, REASON, *RECORDS, *stored}
            assert not encrypted or not held_anywhere(postgres, CANARY, TENANTS)
            keys = [
                bytes.fromhex(key)
                for key in postgres.ask("SELECT encode(wrapped, 'hex') FROM data_keys", url).split()
            ]
            assert len(keys) == encrypted
            assert all(hold_key(postgres, url, key) for key in keys)

            await done_as_told(postgres, url, await erased(office, NAME, user=USER))
            assert len(await it.rows()) == 1
            assert held(postgres, url) == {*RECORDS, *stored} - {CANARY}

            await done_as_told(postgres, url, await erased(office, NAME))
            assert held(postgres, url) == set()
            assert not any(hold_key(postgres, url, key) for key in keys)
            assert not encrypted or not held_anywhere(postgres, CANARY, TENANTS)
