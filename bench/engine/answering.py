"""The child's side of a contest: one JSON task a line in, one JSON result a line out. Standard library only."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Task = Callable[..., float]


def answer(about: Mapping[str, Any], tasks: Mapping[str, Task]) -> None:
    """Announce the contestant, then run tasks until the input ends; each returns seconds."""
    _say({"ready": True, **about})
    for line in sys.stdin:
        asked = json.loads(line)
        name = asked.pop("task")
        if name == "memory":
            _say({"pss_bytes": pss_bytes()})
            continue
        _say({"seconds": tasks[name](**asked)})


def pss_bytes() -> int:
    """Memory of this process, shared pages counted by their share."""
    for line in Path(f"/proc/{os.getpid()}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) << 10
    return 0


def ids_from(seed: int, count: int, vocab: int) -> list[int]:
    """Token ids that differ between seeds, from a linear congruential generator; the same in every contestant."""
    state, ids = seed * 2654435761 % 2**32, []
    first = min(500, vocab // 2)
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        ids.append(first + state % (vocab - first))
    return ids


def _say(value: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()
