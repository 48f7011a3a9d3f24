"""Sets with stand-ins for the gateway and the engine, and real Redis."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.servers.running_set import ROOT, RunningSet

STUB_APP = "tests.gateway.supervisor.stub_app:create_app"
STUB_ENGINE = "tests.gateway.supervisor.stub_engine"
MakeSet = Callable[..., RunningSet]


@pytest.fixture
def make_set(tmp_path: Path) -> Iterator[MakeSet]:
    """Makes sets that end with the test: `make_set(home_name, app=…, LAMINA_X=…)`."""
    made: list[RunningSet] = []

    def make(
        name: str = "home", *, app: str = STUB_APP, engine: str = STUB_ENGINE, **environment: str
    ) -> RunningSet:
        script = ROOT / "tests" / "gateway" / "supervisor" / "run_set.py"
        made.append(RunningSet(tmp_path / name, environment, [sys.executable, str(script), app, engine]))
        return made[-1]

    yield make
    for one in made:
        one.close()
