"""What fails once is run again and named; what fails twice fails."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HOOKS = "from tests.again import pytest_runtest_protocol, pytest_terminal_summary\n"
TESTS = """
import pathlib

import pytest

@pytest.fixture
def count(request):
    path = pathlib.Path(__file__).with_name(request.node.name)
    path.write_text("x" + (path.read_text() if path.exists() else ""))
    return len(path.read_text())

def test_good(count):
    assert count == 1

def test_late(count):
    assert count == 2, "the machine stood still"

def test_bad(count):
    assert count == 0, "it is broken"
"""


@pytest.mark.slow
@pytest.mark.parametrize("spread", [(), ("-n", "1")], ids=["alone", "spread"])
def test_once_more_and_no_more(tmp_path: Path, spread: tuple[str, ...]) -> None:
    (tmp_path / "conftest.py").write_text(HOOKS, "utf-8")
    (tmp_path / "test_it.py").write_text(TESTS, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(tmp_path), "-c", "/dev/null", *spread]
    done = subprocess.run([*command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 2 passed" in done.stdout
    (again,) = [line for line in done.stdout.splitlines() if line.startswith("RUN AGAIN")]
    assert "test_late: it had failed by call: AssertionError: the machine stood still" in again
    assert [len((tmp_path / name).read_text()) for name in ("test_good", "test_late", "test_bad")] == [1, 2, 2]
