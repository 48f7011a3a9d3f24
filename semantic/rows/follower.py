"""Keeps the index equal to the rows: at start all are compared, then changes are followed by their sequence."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from policies.questions import Question
from semantic.embedders.contract import are_unit
from semantic.embedders.shared import SharedEmbedder
from semantic.errors import BusyError, StoreError
from semantic.index.index import Entry, Index
from semantic.rows.memory import StoredQuestions
from semantic.rows.store import RowStore, StoredRow
from semantic.turns import Conversations

T = TypeVar("T")

_LOG = logging.getLogger("semantic.rows")
_PAGE_ROWS = 1024
_POLL_S = 0.1
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.1, 5.0
_PROGRESS_EVERY_S = 2.0
_EMBEDDED_TOGETHER = 32


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the comparison with the rows is; `total` is 0 when it has not begun."""

    done: int
    total: int


class Told(Protocol):
    """Hears what is worth counting."""

    def fault(self, where: str) -> None:
        """Something failed, and the service goes on without it."""
        ...


@dataclass(frozen=True, slots=True)
class Sources:
    """What the follower reads from, embeds with and fills."""

    store: RowStore
    index: Index
    questions: StoredQuestions
    embedder: SharedEmbedder
    conversations: Conversations
    told: Told


class Follower:
    """Follows the rows; belongs to the store's event loop.

    Attributes:
        reached: the change up to which the index holds everything.
        head: the last change known of.
        ready: whether the first comparison is done.
        progress: of the comparison under way.
    """

    def __init__(self, sources: Sources, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.reached = 0
        self.head = 0
        self.ready = False
        self.progress = Progress(0, 0)
        self._at = sources
        self._clock = clock
        self._models = (sources.embedder.fingerprint, self.conversation_models)
        self._wake = asyncio.Event()
        self._moved = asyncio.Condition()

    @property
    def conversation_models(self) -> str:
        """Under what name the vectors of conversations are kept."""
        return f"{self._at.embedder.fingerprint}:{self._at.conversations.fingerprint}"

    async def run(self) -> None:
        """Follows until cancelled; a database that is away is asked again, ever more seldom."""
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                await self.catch_up()
            except (StoreError, BusyError) as error:
                _LOG.warning("the rows are not followed: %s; next try in %.1f s", error, pause_s)
                self._at.told.fault("rows")
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LAST_PAUSE_S)
                continue
            except Exception:  # noqa: BLE001  (counted; whatever it was, the service serves on)
                _LOG.exception("the rows are not followed; next try in %.1f s", _LAST_PAUSE_S)
                self._at.told.fault("follower")
                await asyncio.sleep(_LAST_PAUSE_S)
                continue
            pause_s = _FIRST_PAUSE_S
            await self._sleep()

    async def reach(self, change: int, timeout_s: float) -> bool:
        """Waits until the index holds everything up to a change; false when it takes too long."""
        if self.reached >= change:
            return True
        self._wake.set()
        try:
            async with asyncio.timeout(timeout_s), self._moved:
                await self._moved.wait_for(lambda: self.reached >= change)
        except TimeoutError:
            return False
        return True

    async def catch_up(self) -> None:
        """Brings the index to the last change there is.

        Raises:
            StoreError: the database does not answer.
            BusyError: the embedder does not.
        """
        position = await self._at.store.position()
        behind_what_is_told = self.reached < position.pruned
        if not self.ready or behind_what_is_told or position.head < self.reached:
            await self._compare(position.head)
        self.head = position.head
        while self.reached < position.head:
            changes = await self._at.store.changes(self.reached, position.head, _PAGE_ROWS, self._models)
            self._drop(changes.gone)
            await self._put(changes.live)
            await self._move(changes.upto)

    async def _compare(self, head: int) -> None:
        """Makes the index equal to the rows, whatever it held."""
        live = await self._at.store.live_rows()
        index = self._at.index
        held = {row: placed.stamp for row, placed in index.placed.items()}
        self._drop([row for row in held if row not in live])
        missing = [row for row, stamp in live.items() if held.get(row) != stamp]
        said_at, total = self._clock(), len(missing)
        self.progress = Progress(0, total)
        for numbers in _pages(missing):
            await self._put(await self._at.store.rows(numbers, self._models))
            self.progress = Progress(self.progress.done + len(numbers), total)
            if self._clock() - said_at > _PROGRESS_EVERY_S:
                said_at = self._clock()
                _LOG.warning("index: %d of %d rows (%d %%)", *_share(self.progress))
        _LOG.warning("index: %d rows, of which %d were read anew", len(index), total)
        self.progress = Progress(0, 0)
        self.ready = True
        await self._move(head)

    async def _put(self, rows: Sequence[StoredRow]) -> None:
        readable = [row for row in rows if row.question is not None]
        for row in rows:
            if row.question is None:
                self._at.told.fault("question")
                self._drop([row.row])
        if not readable:
            return
        made = await asyncio.to_thread(self._indexed, readable)
        if made:
            try:
                await self._at.store.write_vectors(made)
            except StoreError as error:
                _LOG.warning("vectors were not written, and will be made again at the next start: %s", error)
                self._at.told.fault("vectors")

    def _indexed(self, rows: Sequence[StoredRow]) -> list[tuple[int, str, bytes]]:
        """Puts rows into the index; returns the vectors that had to be made."""
        turns = [(row, row.question.text) for row in rows if row.question is not None]
        wholes = [(row, text) for row in rows if (text := self._conversation(row.question)) is not None]
        made: list[tuple[int, str, bytes]] = []
        vectors = self._vectors(turns, self._models[0], made)
        conversations = self._vectors(wholes, self._models[1], made)
        entries = [
            Entry(
                row=row.row,
                stamp=row.stamp,
                tenant_id=row.tenant_id,
                family=row.family,
                partition=row.partition,
                vector=vectors[row.row],
                conversation=conversations.get(row.row),
            )
            for row in rows
            if row.row in vectors
        ]
        for _ in self._at.index.put(entries):
            self._at.told.fault("vector")
        for row in rows:
            if row.question is not None:
                self._at.questions.put(row.row, row.stamp, row.question)
        return made

    def _conversation(self, question: Question | None) -> str | None:
        if question is None or not question.history:
            return None
        try:
            return self._at.conversations.nomination_text(question)
        except Exception:  # noqa: BLE001  (counted; the row is found by its last turn only)
            _LOG.exception("a conversation could not be read")
            self._at.told.fault("conversations")
            return None

    def _vectors(
        self, texts: Sequence[tuple[StoredRow, str]], models: str, made: list[tuple[int, str, bytes]]
    ) -> dict[int, np.ndarray]:
        """Vectors by row: as written before where they are sound, else embedded and added to `made`."""
        found: dict[int, np.ndarray] = {}
        missing = []
        for row, text in texts:
            vector = _written(row.vectors.get(models), self._at.embedder.dimensions)
            if vector is None:
                missing.append((row.row, text))
            else:
                found[row.row] = vector
        for some in _pages(missing, _EMBEDDED_TOGETHER):
            for (number, _), vector in zip(some, self._embedded([text for _, text in some]), strict=True):
                if vector is not None:
                    found[number] = vector
                    made.append((number, models, vector.astype("<f4").tobytes()))
        return found

    def _embedded(self, texts: list[str]) -> Iterable[np.ndarray | None]:
        """Vectors of texts; None for one that the model fails on."""
        try:
            return list(self._at.embedder.embed(texts, urgent=False))
        except BusyError:
            raise
        except Exception as error:  # noqa: BLE001  (counted; it costs the row)
            if len(texts) > 1:
                return [vector for text in texts for vector in self._embedded([text])]
            _LOG.warning("a row's question could not be embedded: %s", type(error).__name__)
            self._at.told.fault("embed")
            return [None]

    def _drop(self, rows: Iterable[int]) -> None:
        for row in rows:
            self._at.index.remove(row)
            self._at.questions.discard(row)

    async def _move(self, change: int) -> None:
        async with self._moved:
            self.reached = change
            self._moved.notify_all()

    async def _sleep(self) -> None:
        try:
            async with asyncio.timeout(_POLL_S):
                await self._wake.wait()
        except TimeoutError:
            return
        finally:
            self._wake.clear()


def _pages(values: Sequence[T], size: int = _PAGE_ROWS) -> Iterator[Sequence[T]]:
    return (values[at : at + size] for at in range(0, len(values), size))


def _share(progress: Progress) -> tuple[int, int, int]:
    return progress.done, progress.total, 100 * progress.done // max(1, progress.total)


def _written(data: bytes | None, dimensions: int) -> np.ndarray | None:
    if data is None or len(data) != 4 * dimensions:
        return None
    vector = np.frombuffer(data, "<f4").astype(np.float32)
    return vector if are_unit(vector[None])[0] else None
