"""The C code under AddressSanitizer and UndefinedBehaviorSanitizer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.native.build import SOURCES, find_compiler
from engine.native.library import Library
from tests.engine import tiny

FLAGS = (
    *("-std=c11", "-O1", "-g", "-mavx2", "-mfma", "-mf16c", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"),
    *("-fPIC", "-shared", "-fvisibility=hidden", "-pthread"),
)
FAMILIES = {
    "llama": tiny.Shape(heads=6, kv_heads=2, head_dim=32, intermediate=50),
    "qwen2": tiny.Shape(family="qwen2", hidden=36),
    "gemma3": tiny.Shape(family="gemma3", layers=2, window=70),
}


def run(command: list[str], timeout_s: float, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
        env={**os.environ, **environment},
        cwd=Path(__file__).parents[3],
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_steps_touch_only_what_is_theirs(library: Library, tmp_path: Path) -> None:
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C compiler")
    runtime = run([compiler, "-print-file-name=libasan.so"], 30).stdout.strip()
    if not Path(runtime).is_file():
        pytest.skip("the compiler has no AddressSanitizer")
    target = tmp_path / "sanitized.so"
    sources = sorted(str(path) for path in SOURCES.glob("*.c"))
    built = run([compiler, *FLAGS, *sources, "-lm", "-o", str(target)], 200)
    assert built.returncode == 0, built.stderr
    folders = [str(tiny.write_folder(tmp_path / name, shape)) for name, shape in FAMILIES.items()]
    done = run(
        [sys.executable, "-m", "tests.engine.native.sanitized", str(target), *folders],
        200,
        LD_PRELOAD=runtime,
        ASAN_OPTIONS="detect_leaks=0",
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == "clean\n"
