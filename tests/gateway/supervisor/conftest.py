"""Sets with stand-ins for the gateway and the engine, and real Redis."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.servers.running_set import ROOT, RunningSet

MakeSet = Callable[..., RunningSet]


@pytest.fixture
def make_set(tmp_path: Path) -> Iterator[MakeSet]:
    """Makes sets that end with the test: `make_set(home_name, app=…, LAMINA_X=…)`."""
    made: list[RunningSet] = []

    def make(name: str = "home", *, app: str | None = None, **environment: str) -> RunningSet:
        command = [sys.executable, str(ROOT / "tests" / "gateway" / "supervisor" / "run_set.py")]
        made.append(RunningSet(tmp_path / name, environment, [*command, *([app] if app else [])]))
        return made[-1]

    yield make
    for one in made:
        one.close()
