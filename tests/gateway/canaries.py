"""Looks for words in files, in the forms that a file may hold them in."""

import base64
from collections.abc import Iterable, Iterator
from pathlib import Path


def forms(word: str) -> Iterator[bytes]:
    """The word as files may hold it."""
    for raw in (word.encode(), word.encode("utf-16-le"), word.encode("utf-16-be")):
        yield raw
        for shift in range(3):
            packed = base64.b64encode(b"\0" * shift + raw)
            yield packed[4:-4]


def holders(files: Iterable[Path], *words: str) -> dict[Path, set[str]]:
    """The files that hold words in any form, and which; one that goes away meanwhile holds nothing."""
    wanted = {word: list(forms(word)) for word in words}
    found = {}
    for file in files:
        try:
            held = file.read_bytes()
        except FileNotFoundError:
            continue
        if inside := {word for word in words if any(form in held for form in wanted[word])}:
            found[file] = inside
    return found
