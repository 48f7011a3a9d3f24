"""Opens a home: private, held by one set at a time, with its secret and its run folder."""

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from gateway.home import Home
from gateway.supervisor.errors import StartError

_PRIVATE = 0o700
_ADMIN_PREFIX = "lam_admin_"
_MIN_ADMIN_CHARS = 32


@contextlib.contextmanager
def held_home(home: Home) -> Iterator[None]:
    """Holds the home while the context lasts, with a fresh run folder.

    Raises:
        StartError: it belongs to someone else, another set holds it, or it cannot be written.
    """
    try:
        _make_private(home.root)
        lock = os.open(home.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartError(f"cannot use home {home.root}: {error.strerror}") from None
    try:
        _take(lock, home)
        _make_run_folder(home)
        yield
        _remove_link(home)
        shutil.rmtree(home.run, ignore_errors=True)
    finally:
        os.close(lock)


def master_secret(home: Home) -> str:
    """The secret kept in the home, made at the first start.

    Raises:
        StartError: the file is there and empty, so entries made with it can no longer be trusted.
    """
    secret = _kept(home.secret, secrets.token_urlsafe(48))
    if not secret:
        raise StartError(f"{home.secret} is empty; remove it to get a new secret (cached answers are lost)")
    return secret


def master_keys(home: Home) -> str:
    """The master keys of the encryption kept in the home, one per line; the first is made at the first start.

    Raises:
        StartError: the file is there and holds none, so what was encrypted can no longer be read.
    """
    keys = _kept(home.master_key, f"{secrets.token_urlsafe(48)}\n")
    if not keys:
        raise StartError(
            f"{home.master_key} is empty; put the key back, or remove the file (cached answers are lost)"
        )
    return keys


def admin_key(home: Home) -> str:
    """The administrator's key kept in the home, made at the first start.

    Raises:
        StartError: the file is there and holds no key.
    """
    key = _kept(home.admin_key, f"{_ADMIN_PREFIX}{secrets.token_urlsafe(48)}\n")
    if len(key) < _MIN_ADMIN_CHARS or not key.isascii() or not key.isprintable():
        raise StartError(f"{home.admin_key} holds no key; remove it to get a new one")
    return key


def _kept(path: Path, fresh: str) -> str:
    """The text of a private file, which holds `fresh` when it was not there."""
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(fresh)
    path.chmod(0o600)
    return path.read_text("utf-8").strip()


def write_private(path: Path, text: str) -> None:
    """Replaces a file, in one step, by one that nobody else can read."""
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    fresh.rename(path)


def _make_private(root: Path) -> None:
    root.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
    found = root.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise StartError(f"home {root} is not a folder")
    if found.st_uid != os.geteuid():
        raise StartError(f"home {root} belongs to user id {found.st_uid}, not to you")
    if stat.S_IMODE(found.st_mode) == _PRIVATE:
        return
    if any(root.iterdir()) and not (root / "lock").exists():
        raise StartError(f"home {root} is open to others and holds files that are not Lamina's; choose another")
    root.chmod(_PRIVATE)


def _take(lock: int, home: Home) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
        raise StartError(
            f"home {home.root} is in use by another set (pid {holder}); set LAMINA_HOME to run a second one"
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


def _make_run_folder(home: Home) -> None:
    try:
        shutil.rmtree(home.run, ignore_errors=True)
        home.run.mkdir(mode=_PRIVATE, exist_ok=True)
        home.metrics.mkdir(mode=_PRIVATE, exist_ok=True)
        if home.sockets != home.run:
            _make_link(home)
    except OSError as error:
        raise StartError(f"cannot write to home {home.root}: {error.strerror}") from None


def _make_link(home: Home) -> None:
    folder = home.short_folder
    folder.mkdir(mode=_PRIVATE, exist_ok=True)
    found = folder.lstat()
    private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == _PRIVATE
    if not private or found.st_uid != os.geteuid():
        raise StartError(f"{folder} is not a private folder of yours; remove it, or give home a shorter path")
    home.sockets.unlink(missing_ok=True)
    home.sockets.symlink_to(home.run)


def _remove_link(home: Home) -> None:
    if home.sockets != home.run:
        with contextlib.suppress(OSError):
            home.sockets.unlink()
            home.short_folder.rmdir()
