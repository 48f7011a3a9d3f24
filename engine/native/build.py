"""Compiles the kernels once per machine: finds a C compiler, builds a shared library, keeps it in the environment.

A library's file name says what it was made from (sources and flags, compiler) and what is in it, so one that is
stale, cut short or damaged is never loaded but built again. Several processes may build at once: each writes a
file of its own and renames it into place.
"""

import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from engine.errors import EngineError

SOURCES = Path(__file__).parent / "src"
COMPILERS = ("cc", "gcc", "clang")
# Fused multiply-adds are written out where they are meant, so that every compiler gives the same bits.
FLAGS = (
    *("-std=c11", "-O3", "-mavx2", "-mfma", "-mf16c", "-ffp-contract=off", "-fno-math-errno"),
    *("-fPIC", "-shared", "-fvisibility=hidden", "-pthread"),
)
_TIMEOUT_S = 120
_KEY_LENGTH = 16


class BuildError(EngineError):
    """The kernels cannot be built here; the message is one line for the user."""


def default_folder() -> Path:
    """Return where libraries are kept: inside the Python environment, so that they go when it goes."""
    return Path(sys.prefix) / "lib" / "lamina-native"


def find_compiler() -> str | None:
    """Return the path of a C compiler, or None."""
    return next((found for name in COMPILERS if (found := shutil.which(name))), None)


def built_library(folder: Path | None = None) -> Path | None:
    """Return a sound library made from the present sources, or None.

    Without a compiler at hand any compiler's is taken; with one, only its own.
    """
    folder = folder or default_folder()
    compiler = find_compiler()
    pattern = f"{_source_key()}-{_compiler_key(compiler) if compiler else '*'}-*.so"
    return next((path for path in sorted(folder.glob(pattern)) if _is_sound(path)), None)


def build(folder: Path | None = None) -> Path:
    """Return the library, compiling it unless a sound one is there.

    Side effects: writes into `folder`, and removes unsound libraries of the same make.

    Raises:
        BuildError: there is no compiler, it fails, the sources cannot be read, or the folder cannot be written.
    """
    folder = folder or default_folder()
    try:
        found = built_library(folder)
        if found is not None:
            return found
        compiler = find_compiler()
        if compiler is None:
            raise BuildError(f"no C compiler found (looked for {', '.join(COMPILERS)})")
        folder.mkdir(parents=True, exist_ok=True)
        return _compile(compiler, folder)
    except OSError as error:
        raise BuildError(f"cannot build in {folder}: {error.strerror or error}") from error


def _compile(compiler: str, folder: Path) -> Path:
    make = f"{_source_key()}-{_compiler_key(compiler)}"
    with tempfile.TemporaryDirectory(dir=folder, prefix="building-") as scratch:
        target = Path(scratch) / "native.so"
        sources = sorted(str(path) for path in SOURCES.glob("*.c"))
        command = [compiler, *FLAGS, *sources, "-lm", "-o", str(target)]
        status, said = _run(command)
        if status != 0:
            lines = [line for line in said.splitlines() if "error" in line] or said.splitlines()
            raise BuildError(f"{compiler} failed: {lines[0].strip() if lines else f'status {status}'}")
        for stale in folder.glob(f"{make}-*.so"):
            if not _is_sound(stale):
                stale.unlink(missing_ok=True)
        final = folder / f"{make}-{_content_key(target)}.so"
        target.replace(final)
    return final


def _run(command: list[str]) -> tuple[int, str]:
    """Run a compiler; its status and what it said on stderr. One that does not end is killed with its children."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            _, said = process.communicate(timeout=_TIMEOUT_S)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise BuildError(f"{command[0]} did not finish in {_TIMEOUT_S} s") from error
            raise
    return process.returncode, said


def _is_sound(path: Path) -> bool:
    try:
        return path.stem.endswith(f"-{_content_key(path)}")
    except OSError:
        return False


def _content_key(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:_KEY_LENGTH]


def _source_key() -> str:
    state = hashlib.sha256("\0".join((platform.machine(), *FLAGS)).encode())
    for path in sorted(SOURCES.iterdir()):
        text = path.read_bytes()
        state.update(f"\0{path.name}\0{len(text)}\0".encode() + text)
    return state.hexdigest()[:_KEY_LENGTH]


def _compiler_key(compiler: str) -> str:
    try:
        done = subprocess.run([compiler, "--version"], capture_output=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return hashlib.sha256(f"{compiler}\0".encode() + done.stdout).hexdigest()[:_KEY_LENGTH]
