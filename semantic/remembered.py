"""What was used last, within a budget; safe from several threads."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """The values used last.

    Args:
        budget: most that all of them may cost.
        cost: of one value; the same whenever it is asked.
    """

    def __init__(self, budget: int, cost: Callable[[V], int]) -> None:
        self._budget = budget
        self._cost = cost
        self._spent = 0
        self._lock = threading.Lock()
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """The value, which becomes the last used; None when it is unknown."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Keeps a value, and forgets those used longest ago until the budget is kept."""
        with self._lock:
            self._drop(key)
            self._values[key] = value
            self._spent += self._cost(value)
            while self._spent > self._budget:
                self._drop(next(iter(self._values)))

    def discard(self, key: K) -> None:
        """Forgets a value, if it is known."""
        with self._lock:
            self._drop(key)

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._values.clear()
            self._spent = 0

    def _drop(self, key: K) -> None:
        old = self._values.pop(key, None)
        if old is not None:
            self._spent -= self._cost(old)
