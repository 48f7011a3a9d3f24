"""One sound library per machine, whoever builds it, however often."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.native import build as building
from engine.native.build import BuildError, build, built_library, find_compiler
from engine.native.library import Library

SMALL = "int native_version(void) { return 1; }\n"


@pytest.fixture
def small_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sources that compile in a moment."""
    if find_compiler() is None:
        pytest.skip("no C compiler")
    sources = tmp_path / "src"
    sources.mkdir()
    (sources / "small.c").write_text(SMALL)
    monkeypatch.setattr(building, "SOURCES", sources)
    return sources


def test_a_library_is_built_once(small_sources: Path, tmp_path: Path) -> None:
    folder = tmp_path / "built"
    assert built_library(folder) is None
    first = build(folder)
    stamp = first.stat().st_mtime_ns
    assert build(folder) == first == built_library(folder)
    assert first.stat().st_mtime_ns == stamp
    assert list(folder.iterdir()) == [first]


def test_changed_sources_are_built_anew(small_sources: Path, tmp_path: Path) -> None:
    first = build(tmp_path / "built")
    (small_sources / "small.c").write_text(SMALL + "int other(void) { return 2; }\n")
    assert built_library(tmp_path / "built") is None
    assert build(tmp_path / "built") != first


@pytest.mark.parametrize("damage", [b"", b"not a library", None])
def test_a_damaged_library_is_replaced(small_sources: Path, tmp_path: Path, damage: bytes | None) -> None:
    first = build(tmp_path / "built")
    whole = first.read_bytes()
    first.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert built_library(tmp_path / "built") is None
    assert build(tmp_path / "built").read_bytes() == whole


def test_several_may_build_at_once(small_sources: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: build(tmp_path / "built"), range(4)))
    assert len({path.read_bytes() for path in paths}) == 1
    assert all(path.is_file() for path in paths)


def test_a_library_is_used_where_the_compiler_has_gone(
    small_sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build(tmp_path / "built")
    monkeypatch.setattr(building, "find_compiler", lambda: None)
    assert build(tmp_path / "built") == first
    with pytest.raises(BuildError, match="no C compiler found"):
        build(tmp_path / "elsewhere")


def test_what_the_compiler_says_is_one_line(small_sources: Path, tmp_path: Path) -> None:
    (small_sources / "small.c").write_text("this is no C\n")
    with pytest.raises(BuildError, match=r"failed: .*error") as caught:
        build(tmp_path / "built")
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "built").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(small_sources: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BuildError, match="cannot build in"):
        build(tmp_path / "file")


def test_a_compiler_that_hangs_is_ended_with_its_children(
    small_sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler, child = tmp_path / "hangs", tmp_path / "child"
    compiler.write_text(f'#!/bin/sh\ncase "$1" in --version) exit;; esac\nsleep 60 & echo $! > {child}; wait\n')
    compiler.chmod(0o755)
    monkeypatch.setattr(building, "find_compiler", lambda: str(compiler))
    monkeypatch.setattr(building, "_TIMEOUT_S", 0.3)
    with pytest.raises(BuildError, match="did not finish"):
        build(tmp_path / "built")
    assert list((tmp_path / "built").iterdir()) == []
    deadline = time.monotonic() + 5
    while _runs(int(child.read_text())):
        assert time.monotonic() < deadline, "the compiler's child goes on"
        time.sleep(0.01)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
        return " Z " not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


def test_what_the_compiler_says_may_be_in_any_encoding(
    small_sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "speaks"
    compiler.write_bytes(b"#!/bin/sh\nprintf 'error: \\377\\n' >&2; exit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setattr(building, "find_compiler", lambda: str(compiler))
    with pytest.raises(BuildError, match="failed: error: \ufffd"):
        build(tmp_path / "built")


def test_absent_sources_are_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "SOURCES", tmp_path / "nowhere")
    with pytest.raises(BuildError, match="cannot build in"):
        build(tmp_path / "built")


def test_a_library_of_another_make_is_refused(small_sources: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="cannot be loaded"):
        Library(build(tmp_path / "built"))


@pytest.mark.slow
def test_the_module_says_where_the_library_is(library: Library) -> None:
    done = subprocess.run([sys.executable, "-m", "engine.native"], capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()) == built_library()
