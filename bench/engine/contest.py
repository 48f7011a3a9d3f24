"""The parent's side: contestants as processes, asked in turn so that the machine's moods reach all alike."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Task:
    """One measurement.

    Attributes:
        name: what the report calls it.
        asked: the task and its arguments, as the child reads them.
        tokens: tokens it processes; rates are tokens / seconds.
        rounds: so many, and none unmeasured, for a task that takes long; None for as many as are asked for.
    """

    name: str
    asked: Mapping[str, Any]
    tokens: int
    rounds: int | None = None


class Contestant:
    """A child that measures itself."""

    def __init__(self, name: str, argv: Iterable[str], tasks: frozenset[str]) -> None:
        self.name = name
        self._tasks = tasks
        argv = ["env", f"PYTHONPATH={ROOT}", *argv]
        self._child = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = self._read()

    def can(self, task: Task) -> bool:
        """Whether it takes part in a task."""
        return task.asked["task"] in self._tasks

    def seconds(self, task: Task) -> float:
        """Run a task once."""
        return float(self._ask(task.asked)["seconds"])

    def pss_bytes(self) -> int:
        """Memory it holds now."""
        return int(self._ask({"task": "memory"})["pss_bytes"])

    def close(self) -> None:
        """End the child."""
        with self._child:
            assert self._child.stdin is not None
            self._child.stdin.close()

    def _ask(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(asked) + "\n")
        self._child.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        while line := self._child.stdout.readline():
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        raise RuntimeError(f"{self.name} ended with status {self._child.wait()}")


def measure(
    contestants: Iterable[Contestant], tasks: Iterable[Task], rounds: int, tell: Callable[[str], None]
) -> dict[str, dict[str, list[float]]]:
    """Run every task `rounds` times, round robin over contestants after one unmeasured turn each.

    Returns:
        Tokens per second by task and contestant, in the order of the rounds.
    """
    found: dict[str, dict[str, list[float]]] = {}
    entered = list(contestants)
    for task in tasks:
        rates: dict[str, list[float]] = {one.name: [] for one in entered if one.can(task)}
        turns = task.rounds or rounds
        for number in range(task.rounds is not None, turns + 1):
            for one in entered:
                if one.can(task):
                    rate = task.tokens / one.seconds(task)
                    if number:
                        rates[one.name].append(rate)
            tell(f"{task.name}: {number} of {turns} rounds")
        found[task.name] = rates
    return found


def summary(rates: Mapping[str, list[float]]) -> dict[str, dict[str, float]]:
    """Median, smallest and largest rate of each contestant."""
    return {
        name: {"median": round(median(of), 2), "min": round(min(of), 2), "max": round(max(of), 2)}
        for name, of in rates.items()
    }


def ratio(rates: Mapping[str, list[float]], ours: str, theirs: str) -> float | None:
    """Median over rounds of ours by theirs, each pair taken in the same round."""
    if not rates.get(ours) or not rates.get(theirs):
        return None
    return round(median(our / their for our, their in zip(rates[ours], rates[theirs], strict=True)), 3)


def python_with(module: str, preferred: str | None) -> str | None:
    """The interpreter that has a module: the preferred one, else this one, else None."""
    for python in filter(None, (preferred, sys.executable)):
        probe = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
        if subprocess.run([python, "-c", probe], check=False).returncode == 0:
            return python
    return None
