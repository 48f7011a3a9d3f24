"""Runs of cached tokens in the order of their tree; pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_DEEPEST = 8
"""Beyond so many steps they are indented no further."""


def in_order(runs: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each run followed by those that continue it, with its `depth` from 0 to 8.

    Args:
        runs: with `number` and `parent`, as the engine tells them.
    """
    below: dict[int | None, list[Mapping[str, Any]]] = defaultdict(list)
    for run in runs:
        below[run["parent"]].append(run)
    waiting = [(run, 0) for run in reversed(below[None])]
    while waiting:
        run, depth = waiting.pop()
        yield {**run, "depth": min(depth, _DEEPEST)}
        waiting += [(one, depth + 1) for one in reversed(below[run["number"]])]
