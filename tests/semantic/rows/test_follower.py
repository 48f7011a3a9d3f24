"""The follower: whatever is written, removed, quarantined or forgotten, the index comes to hold the live rows."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import pytest
from sqlalchemy import delete, update

from gateway.db.tables import COUNTERS, SEMANTIC_DELETIONS, SEMANTIC_ROWS, SEMANTIC_VECTORS
from semantic.embedders.shared import SharedEmbedder
from semantic.errors import ConfigError, StoreError
from semantic.index.index import Index
from semantic.rows.follower import Follower, Sources
from semantic.rows.memory import StoredQuestions
from semantic.rows.store import RowStore
from semantic.turns import LastTurns
from tests.semantic.embedders.letters import Letters
from tests.semantic.rows_stand import Rows, single, talk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@dataclass
class Followed:
    """A follower with its own index, as one service has."""

    store: RowStore
    letters: Letters = field(default_factory=Letters)
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Builds the parts."""
        self.embedder = SharedEmbedder(self.letters)
        self.start()

    def start(self) -> None:
        """Begins with an empty index."""
        self.index = Index(256, "letters")
        self.questions = StoredQuestions(self.store, self.index, asyncio.get_running_loop())
        self.follower = Follower(Sources(self.store, self.index, self.questions, self.embedder, LastTurns(), self))

    def fault(self, where: str) -> None:
        """Is counted."""
        self.faults.append(where)

    async def texts(self) -> dict[str, int]:
        """Rows by the text of their last turn."""
        found = await asyncio.to_thread(self.questions.questions, list(self.index.placed))
        return {question.text: row for row, question in found.items()}


@pytest.fixture
async def followed(rows: Rows, url: str) -> AsyncIterator[Followed]:
    assert rows
    made = Followed(RowStore.open(url))
    yield made
    made.embedder.close()
    await made.store.close()


async def test_writes_deletes_and_quarantines_are_followed(rows: Rows, followed: Followed) -> None:
    await followed.follower.catch_up()
    await rows.put([single("one"), single("two"), talk("a", "b", "three")])
    await followed.follower.catch_up()
    numbers = await rows.numbers()
    assert await followed.texts() == numbers
    assert len(followed.index.conversations) == 1
    await rows.table.quarantine(rows.tenant_id, [numbers["one"]], 9000.0)
    await rows.table.remove(rows.tenant_id, [numbers["three"]])
    await followed.follower.catch_up()
    assert await followed.texts() == {"two": numbers["two"]}
    assert followed.index.conversations == {}
    followed_to = followed.follower.reached
    await rows.put([single("two")])
    await followed.follower.catch_up()
    assert followed.follower.reached == followed_to + 1
    assert await followed.texts() == {"two": numbers["two"]}
    assert followed.faults == []


async def test_what_one_service_has_embedded_no_other_does(rows: Rows, followed: Followed, url: str) -> None:
    await rows.put([single(f"question {number}") for number in range(30)] + [talk("a", "b", "c")])
    await followed.follower.catch_up()
    assert sum(followed.letters.batches) == 32
    other = Followed(RowStore.open(url))
    await other.follower.catch_up()
    assert other.letters.batches == []
    assert await other.texts() == await followed.texts()
    other.embedder.close()
    await other.store.close()


async def test_vectors_that_are_no_vectors_are_made_again(rows: Rows, followed: Followed) -> None:
    await rows.put([single(text) for text in ("one", "two", "three")])
    await followed.follower.catch_up()
    bad = [b"", np.zeros(256, "<f4").tobytes(), np.full(256, np.nan, "<f4").tobytes()]
    for number, vector in zip((await rows.numbers()).values(), bad, strict=True):
        harm = update(SEMANTIC_VECTORS).where(SEMANTIC_VECTORS.c.row == number).values(vector=vector)
        await rows.database.write(lambda connection, harm=harm: connection.execute(harm))
    followed.start()
    await followed.follower.catch_up()
    assert await followed.texts() == await rows.numbers()


async def test_a_question_that_cannot_be_read_is_left_out(rows: Rows, followed: Followed) -> None:
    await rows.put([single("one"), single("two")])
    number = (await rows.numbers())["one"]
    for question in (b"\xc1", msgspec.msgpack.encode([[]])):
        harm = update(SEMANTIC_ROWS).where(SEMANTIC_ROWS.c.row == number).values(question=question)
        await rows.database.write(lambda connection, harm=harm: connection.execute(harm))
        followed.start()
        await followed.follower.catch_up()
        assert set(await followed.texts()) == {"two"}
    assert followed.faults == ["question", "question"]


async def test_who_missed_pruned_deletions_compares_all(rows: Rows, followed: Followed) -> None:
    await rows.put([single(text) for text in ("one", "two", "three")])
    await followed.follower.catch_up()
    numbers = await rows.numbers()
    await rows.table.remove(rows.tenant_id, [numbers["one"]])
    last = await rows.put([single("four")])
    await rows.table.forget_deletions(0)
    await followed.follower.catch_up()
    assert await followed.texts() == await rows.numbers()
    assert followed.follower.reached == last


async def test_a_database_brought_back_from_earlier_is_noticed(rows: Rows, followed: Followed) -> None:
    await rows.put([single(text) for text in ("one", "two", "three")])
    await followed.follower.catch_up()

    async def bring_back(connection: object) -> None:
        execute = connection.execute  # type: ignore[attr-defined]
        await execute(delete(SEMANTIC_ROWS).where(SEMANTIC_ROWS.c.row > 1))
        await execute(delete(SEMANTIC_VECTORS).where(SEMANTIC_VECTORS.c.row > 1))
        await execute(delete(SEMANTIC_DELETIONS))
        await execute(update(COUNTERS).where(COUNTERS.c.name == "semantic").values(value=1))

    await rows.database.write(bring_back)
    await followed.follower.catch_up()
    assert set(await followed.texts()) == {"one"}
    await rows.put([single("other")])
    await followed.follower.catch_up()
    assert await followed.texts() == await rows.numbers()


async def test_a_look_up_that_names_a_change_waits_for_it(rows: Rows, followed: Followed) -> None:
    running = asyncio.create_task(followed.follower.run())
    try:
        last = await rows.put([single("one")])
        assert await followed.follower.reach(last, 20)
        assert set(await followed.texts()) == {"one"}
        assert not await followed.follower.reach(last + 1, 0.3)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_writers_at_once_and_a_reader_agree_in_the_end(rows: Rows, followed: Followed) -> None:
    running = asyncio.create_task(followed.follower.run())

    async def write(seed: int) -> int:
        draw, last = random.Random(seed), 0
        for _ in range(25):
            last = await rows.put([single(f"question {draw.randrange(40)}")])
            if draw.random() < 0.3 and (numbers := list((await rows.numbers()).values())):
                await rows.table.remove(rows.tenant_id, draw.sample(numbers, 1))
        return last

    try:
        await asyncio.gather(*(write(seed) for seed in range(4)))
        assert await followed.follower.reach(await rows.put([single("last")]), 60)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert await followed.texts() == await rows.numbers()
    live = set((await rows.numbers()).values())
    assert {row for row, _ in await rows.vectors()} == live


async def test_no_vector_outlives_its_row(rows: Rows, followed: Followed) -> None:
    await rows.put([single("one"), single("two")])
    numbers = await rows.numbers()
    await rows.table.remove(rows.tenant_id, [numbers["one"]])
    vector = np.eye(1, 256, dtype="<f4").tobytes()
    await followed.store.write_vectors([(number, "m", vector) for number in numbers.values()])
    await followed.store.write_vectors([(number, "m", b"other") for number in numbers.values()])
    assert await rows.vectors() == {(numbers["two"], "m"): vector}


def test_urls_that_name_no_database_are_refused(tmp_path: Path) -> None:
    for url in ("", "mysql://host/db", "sqlite://", "sqlite:///x?mode=ro", "postgresql://host"):
        with pytest.raises(ConfigError, match="database-url"):
            RowStore.open(url)
    with pytest.raises(StoreError, match="there is no database"):
        RowStore.open(f"sqlite:///{tmp_path}/absent.db")


async def test_a_database_without_tables_is_no_crash(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    store = RowStore.open(f"sqlite:///{tmp_path}/empty.db")
    with pytest.raises(StoreError, match="no such table"):
        await store.position()
    await store.close()
