"""A whole set with the real semantic service: after an erasure no file holds a word of it, encrypted or not."""

import asyncio
import json
import sqlite3
from pathlib import Path

import openai
import pytest

from tests.gateway.canaries import holders
from tests.gateway.stand import KEY
from tests.gateway.whole_set import WholeSet, until, upstream_of, whole_set
from tests.upstream import Script

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

CANARY = "Quixvanthropole"
"""Of the first user; the tenant's own is TENANTS."""

TENANTS = "Brimblefarquhar"
USER, OTHER = "customer-4711@quixote.example", "customer-4712@quixote.example"
PATIENCE_S = 240.0
"""Models load and embed on a machine that may do other things."""


def holding(home: Path, word: str) -> list[str]:
    """Names of the files under a home, and of its output, that hold the word in any form."""
    files = [file for file in home.rglob("*") if file.is_file()]
    return [file.name for file in holders([*files, home.with_name(f"{home.name}.out")], word)]


async def start(it: WholeSet) -> None:
    """Starts the set; returns when it is ready."""
    it.running.launch()
    await until(lambda: "Lamina is ready" in it.running.output, within_s=PATIENCE_S)
    it.url = it.running.url


async def ask(it: WholeSet, words: str, user: str, *history: str) -> str:
    """Asks; returns what `Cache-Status` says."""
    turns = [
        {"role": "user" if index % 2 == 0 else "assistant", "content": text}
        for index, text in enumerate((*history, words))
    ]
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{it.url}/v1", max_retries=0) as client:
        raw = await client.chat.completions.with_raw_response.create(
            model="m",
            messages=turns,  # type: ignore[arg-type]
            user=user,
        )
    return str(raw.headers["cache-status"])


def rows(home: Path) -> tuple[int, int]:
    """How many semantic rows and vectors there are."""
    with sqlite3.connect(f"file:{home}/lamina.db?mode=ro", uri=True) as database:
        count = "SELECT (SELECT count(*) FROM semantic_rows), (SELECT count(*) FROM semantic_vectors)"
        found: tuple[int, int] = database.execute(count).fetchone()
    return found


async def teach(it: WholeSet) -> None:
    """Two users' answers in Redis and its snapshot, in SQL, in the index; and a purge that names the first."""
    home = it.running.home
    async with upstream_of(it) as upstream:
        upstream.default = Script(pieces=("It is ", CANARY, " indeed."))
        await ask(it, f"What is the {CANARY} of my house?", USER)
        await ask(it, "And who made it?", USER, f"Tell me of {CANARY}", f"{CANARY} is old.")
        upstream.default = Script(pieces=("It is ", TENANTS, " indeed."))
        await ask(it, f"What is the {TENANTS} of your garden?", OTHER)
        await until(lambda: rows(home)[0] == 3 and rows(home)[1] >= 3, within_s=PATIENCE_S)
    await it.done("purge", "--tenant", "default", "--user", USER, "--soft", "--reason", f"{CANARY} asked")
    assert it.redis("SAVE") == b"+OK\r\n"


async def erased(it: WholeSet, *words: str) -> dict[str, dict[str, object]]:
    """Erases; returns the proof's lines by store."""
    told = await it.lamina("erase", "--tenant", "default", "--yes", *words)
    assert told.status == 0, told
    assert (told.data["state"], told.data["signed"], told.data["report"]["complete"]) == ("done", True, True)
    return {line["store"]: line for line in told.data["report"]["stores"]}


def snapshot_rows(home: Path) -> int:
    """Rows in the snapshot of the index."""
    (file,) = (home / "semantic").glob("index-*.json")
    found: int = json.loads(file.read_bytes())["head"]["rows"]
    return found


@pytest.mark.parametrize("encrypted", [True, False], ids=["encrypted", "plain"])
async def test_no_file_holds_a_word_after_an_erasure(tmp_path: Path, encrypted: bool) -> None:
    home = tmp_path / "home"
    environment = {
        "LAMINA_CACHE__MODE": "semantic",
        "LAMINA_SEMANTIC__RULE": "fixed",
        "LAMINA_SEMANTIC__DEADLINE_MS": "5000",
        "LAMINA_GUARDS__ENABLED": "false",
        "LAMINA_ENCRYPTION__ENABLED": str(encrypted).lower(),
    }
    with whole_set(home, **environment) as it:
        await start(it)
        await until(lambda: '"semantic":"ok"' in it.running.get("/readyz"), within_s=PATIENCE_S)
        await teach(it)
        found = {*holding(home, CANARY), *holding(home, TENANTS)}
        stored = {"redis.rdb", "lamina.db-wal"}
        assert not found & (stored if encrypted else set()) - {"lamina.db-wal"}
        assert encrypted or stored <= found

        lines = await erased(it, "--user", USER)
        assert (lines["redis"]["found"], lines["semantic_rows"]["found"]) == (2, 2)
        assert lines["records"]["found"] == 3, "the log, and the audit of both purges"
        assert rows(home)[0] == snapshot_rows(home) == 1
        assert holding(home, CANARY) == holding(home, USER) == []
        async with upstream_of(it) as upstream:
            assert "hit" in await ask(it, f"What is the {TENANTS} of your garden?", OTHER)
            assert upstream.count == 0

        lines = await erased(it)
        assert (lines["redis"]["found"], lines["semantic_rows"]["found"]) == (1, 1)
        with pytest.raises(openai.AuthenticationError):
            await ask(it, "Is anybody there?", OTHER)
        assert rows(home) == (0, 0)
        assert snapshot_rows(home) == 0
        await asyncio.to_thread(it.running.stop)
        for word in (CANARY, TENANTS, USER, OTHER):
            assert holding(home, word) == []


async def test_a_home_rotates_its_master_key_and_its_answers_stay(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with whole_set(home, LAMINA_WORKERS="1") as it:
        await start(it)
        async with upstream_of(it):
            await ask(it, "What is it?", USER)
        before = (home / "master_key").read_text()
        told = await it.lamina("encryption", "rotate")
        assert told.status == 1
        assert "in use by another set" in told.error
        assert (await it.done("encryption", "status"))["data_keys"] != {}
        await asyncio.to_thread(it.running.stop)
        assert (await it.done("encryption", "rotate"))["rewrapped"] == 1
        assert (home / "master_key").read_text() != before
        assert (home / "master_key").stat().st_mode & 0o777 == 0o600
        await start(it)
        async with upstream_of(it) as upstream:
            assert "hit" in await ask(it, "What is it?", USER)
            await it.done("encryption", "rotate", "--data-keys")
            assert "hit" in await ask(it, "What is it?", USER)
            assert upstream.count == 0
