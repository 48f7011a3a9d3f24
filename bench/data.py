"""The folder of public data that some benchmarks read."""

import argparse
import gzip
import json
from pathlib import Path
from typing import Any


def require(parser: argparse.ArgumentParser, folder: Path, names: tuple[str, ...]) -> None:
    """End with a usage error, exit status 2, when the folder lacks a file."""
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        parser.error(f"--data {folder} lacks {', '.join(missing)}")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines, gzipped or not; ends the program when it is not there."""
    if not path.is_file():
        raise SystemExit(f"--data lacks {path.parent.name}/{path.name}")
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    return [json.loads(line) for line in text.split("\n") if line]
