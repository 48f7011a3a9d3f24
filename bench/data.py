"""The folder of public data that some benchmarks read."""

import argparse
from pathlib import Path


def require(parser: argparse.ArgumentParser, folder: Path, names: tuple[str, ...]) -> None:
    """End with a usage error, exit status 2, when the folder lacks a file."""
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        parser.error(f"--data {folder} lacks {', '.join(missing)}")
