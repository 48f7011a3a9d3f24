"""`python -m engine.native`: build the kernels and say where they are."""

import sys

from engine.native.build import BuildError, build
from engine.native.library import Library
from engine.native.support import machine_gap


def main() -> int:
    """Build unless that is done already; 0 with the path on stdout, 1 with one line of why not on stderr."""
    gap = machine_gap()
    if gap is not None:
        sys.stderr.write(f"{gap}\n")
        return 1
    try:
        path = build()
        Library(path)
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
