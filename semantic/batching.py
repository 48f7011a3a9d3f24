"""One thread owns a model; whoever asks meanwhile is computed together in the next batch.

Nobody waits for others to come: while a batch is computed the next one gathers, so alone is fast and many are
cheap. Work that can wait, such as rows being indexed, goes in small batches between what cannot.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from semantic.errors import BusyError, SemanticError

In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(slots=True)
class _Job(Generic[In, Out]):
    """One call: its items, what has been computed of them, and what went wrong."""

    items: Sequence[In]
    results: dict[int, Out] = field(default_factory=dict)
    error: Exception | None = None
    abandoned: bool = False
    done: threading.Event = field(default_factory=threading.Event)


class Batcher(Generic[In, Out]):
    """Gathers items of concurrent calls into batches for one thread.

    Args:
        compute: gives one result per item, in order; runs in the batcher's thread only.
        name: of the thread.
        most_together: items in a batch.
        most_behind: items in a batch of calls that can wait; bounds what an urgent one waits for.
        most_waiting: urgent items in the queue; those beyond are refused.
        told: called with the size of each batch.
    """

    def __init__(
        self,
        compute: Callable[[list[In]], Sequence[Out]],
        name: str,
        *,
        most_together: int = 32,
        most_behind: int = 8,
        most_waiting: int = 2048,
        told: Callable[[int], None] | None = None,
    ) -> None:
        self._compute = compute
        self._most_together = most_together
        self._most_behind = most_behind
        self._most_waiting = most_waiting
        self._told = told or (lambda _size: None)
        self._urgent: deque[tuple[_Job[In, Out], int]] = deque()
        self._behind: deque[tuple[_Job[In, Out], int]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def __call__(self, items: Sequence[In], *, urgent: bool = True, timeout_s: float = 30.0) -> list[Out]:
        """Computes items, in order; waits for the thread.

        Raises:
            BusyError: too many wait already, it takes too long, or the batcher is closed.
            Exception: what `compute` raised for these items.
        """
        if not items:
            return []
        job: _Job[In, Out] = _Job(items)
        queue = self._urgent if urgent else self._behind
        with self._changed:
            if self._closed or (urgent and len(self._urgent) + len(items) > self._most_waiting):
                raise BusyError("too much waits for the model")
            queue.extend((job, at) for at in range(len(items)))
            self._changed.notify()
        if not job.done.wait(timeout_s):
            job.abandoned = True
            raise BusyError("the model did not answer in time")
        if job.error is not None:
            raise job.error
        return [job.results[at] for at in range(len(items))]

    def close(self) -> None:
        """Refuses new calls, fails those that wait, and ends the thread. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout=5.0)

    def _work(self) -> None:
        while batch := self._next():
            self._told(len(batch))
            try:
                self._run(batch)
            except Exception as error:  # noqa: BLE001  (goes to the callers, who count it)
                self._isolate(batch, error)

    def _next(self) -> list[tuple[_Job[In, Out], int]]:
        """The next batch; empty when closed."""
        with self._changed:
            while True:
                if self._closed:
                    self._fail_waiting()
                    return []
                queue, most = (
                    (self._urgent, self._most_together) if self._urgent else (self._behind, self._most_behind)
                )
                batch: list[tuple[_Job[In, Out], int]] = []
                while queue and len(batch) < most:
                    entry = queue.popleft()
                    if not entry[0].abandoned:
                        batch.append(entry)
                if batch:
                    return batch
                if not self._urgent and not self._behind:
                    self._changed.wait()

    def _fail_waiting(self) -> None:
        for job, _ in (*self._urgent, *self._behind):
            job.error = BusyError("the service is stopping")
            job.done.set()

    def _run(self, batch: list[tuple[_Job[In, Out], int]]) -> None:
        results = self._compute([job.items[at] for job, at in batch])
        if len(results) != len(batch):
            raise SemanticError(f"{len(results)} results for {len(batch)} items")
        for (job, at), result in zip(batch, results, strict=True):
            job.results[at] = result
            if len(job.results) == len(job.items):
                job.done.set()

    def _isolate(self, batch: list[tuple[_Job[In, Out], int]], error: Exception) -> None:
        """Runs what failed together one by one, so that each call fails only by what it brought."""
        for entry in batch:
            job = entry[0]
            if len(batch) == 1:
                job.error = error
            elif job.error is None:
                try:
                    self._run([entry])
                except Exception as own:  # noqa: BLE001  (goes to the caller)
                    job.error = own
            if job.error is not None:
                job.done.set()
