"""The questions of stored rows: those used last are kept, others are read when they are nominated."""

import asyncio
from collections.abc import Mapping, Sequence

from policies.questions import Question
from semantic.errors import StoreError
from semantic.index.index import Index, Stamp
from semantic.remembered import Remembered
from semantic.rows.store import RowStore

_OVERHEAD_BYTES = 500
_READ_DEADLINE_S = 2.0

_Kept = tuple[Stamp, Question, int]
"""The state of the row, its question and what that takes in bytes."""


class StoredQuestions:
    """Questions by row, as of the state that the index has; safe from all threads but the loop's own.

    Args:
        store: where they are read.
        index: says what state of a row is current.
        loop: in which the store lives.
        budget_bytes: of what is kept.
    """

    def __init__(
        self, store: RowStore, index: Index, loop: asyncio.AbstractEventLoop, *, budget_bytes: int = 128 << 20
    ) -> None:
        self._store = store
        self._index = index
        self._loop = loop
        self._kept: Remembered[int, _Kept] = Remembered(budget_bytes, lambda kept: kept[2])

    def put(self, row: int, stamp: Stamp, question: Question) -> None:
        """Keeps a question."""
        size = sum(len(text) for _, text in question.turns)
        self._kept.put(row, (stamp, question, size + _OVERHEAD_BYTES * (1 + len(question.turns))))

    def discard(self, row: int) -> None:
        """Forgets a row."""
        self._kept.discard(row)

    def clear(self) -> None:
        """Forgets every question; those still stored are read again."""
        self._kept.clear()

    def questions(self, rows: Sequence[int]) -> Mapping[int, Question]:
        """The questions of the rows that are still live.

        Raises:
            StoreError: one has to be read, and the database does not answer in time.
        """
        found, missing = {}, []
        for row in rows:
            placed, kept = self._index.placed.get(row), self._kept.get(row)
            if placed is not None and kept is not None and kept[0] == placed.stamp:
                found[row] = kept[1]
            elif placed is not None:
                missing.append(row)
        if missing:
            found.update(self._read(missing))
        return found

    def _read(self, rows: Sequence[int]) -> Mapping[int, Question]:
        reading = asyncio.run_coroutine_threadsafe(self._store.rows(rows, ()), self._loop)
        try:
            stored = reading.result(_READ_DEADLINE_S)
        except TimeoutError as error:
            reading.cancel()
            raise StoreError("the questions of the nearest rows were not read in time") from error
        for one in stored:
            if one.question is not None:
                self.put(one.row, one.stamp, one.question)
        return {one.row: one.question for one in stored if one.question is not None}
