"""Threads that work through programs lose no chunk and never wait for what has happened already."""

import subprocess
from pathlib import Path

import pytest

from engine.native.build import SOURCES, find_compiler
from engine.native.support import machine_gap

PROGRAMS, CHUNKS = 100_000, 6
PLAIN = ("-O2",)
WATCHED = ("-O1", "-g", "-fsanitize=thread")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("flags", [PLAIN, pytest.param(WATCHED, marks=pytest.mark.slow)], ids=["plain", "watched"])
def test_programs_follow_each_other_without_a_pause(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """The last thread of one program may still be ending it when the next one begins."""
    compiler, gap = find_compiler(), machine_gap()
    if compiler is None or gap is not None:
        pytest.skip(gap or "no C compiler")
    program = tmp_path / "turns"
    sources = (str(Path(__file__).with_name("team_turns.c")), str(SOURCES / "team.c"))
    command = [compiler, "-std=c11", "-mavx2", *flags, "-pthread", f"-I{SOURCES}", *sources, "-o", str(program)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if flags == WATCHED and built.returncode != 0:
        pytest.skip("the compiler has no ThreadSanitizer")
    assert built.returncode == 0, built.stderr
    for threads in (1, 2, 3, 5, 8):
        done = subprocess.run(
            [str(program), str(threads), str(PROGRAMS)], capture_output=True, text=True, check=False, timeout=30
        )
        if "unexpected memory mapping" in done.stderr:
            pytest.skip("this kernel's address layout is too random for ThreadSanitizer")
        assert done.returncode == 0, done.stderr[-4000:]
        assert int(done.stdout) == PROGRAMS * CHUNKS
