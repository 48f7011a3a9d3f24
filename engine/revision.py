"""Telling one model from another under the same name, in milliseconds even for a large one."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from engine.errors import ModelError

_WINDOWS = 256
_WINDOW_BYTES = 16 << 10
_HEX_CHARS = 32


def model_revision(path: Path, defaults: Iterable[object]) -> str:
    """A word that changes with the model.

    Of each file it reads the name, the size and 256 windows spread over its length: training changes weights all
    over, so windows meet the change, while reading all of a large model would hold up a start.

    Args:
        path: a GGUF file, or the folder of a model; folders in it hold nothing that is loaded.
        defaults: what else shapes an answer that the request does not say, such as a default temperature.

    Raises:
        ModelError: a file cannot be read.
    """
    digest = hashlib.sha256(repr(tuple(defaults)).encode())
    try:
        files = sorted(found for found in path.iterdir() if found.is_file()) if path.is_dir() else [path]
        for file in files:
            digest.update(f"\0{file.name}\0{file.stat().st_size}\0".encode("utf-8", "surrogateescape"))
            for window in _windows(file):
                digest.update(window)
    except OSError as error:
        raise ModelError(f"cannot read {error.filename or path}: {error.strerror}") from error
    return digest.hexdigest()[:_HEX_CHARS]


def _windows(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        step = max(_WINDOW_BYTES, size // _WINDOWS)
        for start in range(0, size, step):
            opened.seek(start)
            yield opened.read(_WINDOW_BYTES)
