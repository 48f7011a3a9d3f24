"""Work behind the answers: one bounded queue and one task; nothing here is on a request's path."""

import asyncio
import contextlib
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Behind(Generic[Item]):
    """Hands queued items to `work`, in order, several at a time; the task begins with the first item.

    Args:
        work: must not raise, for nothing would be worked off afterwards.
        name: of the task.
        most_waiting: longest queue.
        together: most items in one call.
        closing_s: how long closing waits for what is queued.
    """

    def __init__(
        self,
        work: Callable[[list[Item]], Awaitable[None]],
        name: str,
        *,
        most_waiting: int,
        together: int,
        closing_s: float,
    ) -> None:
        self._work = work
        self._name = name
        self._most_waiting = most_waiting
        self._together = together
        self._closing_s = closing_s
        self._waiting: deque[Item] = deque()
        self._more = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._task: asyncio.Task[None] | None = None

    def put(self, item: Item) -> bool:
        """Queues an item and returns at once; False when the queue is full and the item is lost."""
        if len(self._waiting) >= self._most_waiting:
            return False
        self._waiting.append(item)
        self._idle.clear()
        self._more.set()
        if self._task is None:
            alone = contextvars.Context()  # of nobody: the task outlives the request that brought the first item
            self._task = asyncio.create_task(self._run(), name=self._name, context=alone)
        return True

    async def drained(self) -> None:
        """Returns when nothing waits."""
        await self._idle.wait()

    async def close(self) -> None:
        """Works off what waits, for a short time, then stops."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._closing_s):
                await self.drained()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._more.wait()
            await self._work([self._waiting.popleft() for _ in range(min(self._together, len(self._waiting)))])
            if not self._waiting:
                self._more.clear()
                self._idle.set()
