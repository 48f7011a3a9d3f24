"""Runs a program that dies with its parent: `python -I -S leash.py PARENT_PID PROGRAM ARGUMENT…`.

Asks the kernel for SIGKILL when the parent ends (prctl(2), PR_SET_PDEATHSIG), then becomes the program; the
request outlives exec. Run by path and without site packages, so that it costs a few milliseconds.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Becomes the program; ends with status 1 when the parent is gone already."""
    parent_pid, program, *_ = arguments
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent_pid):
        sys.exit(1)
    os.execv(program, arguments[1:])  # noqa: S606  (no shell is wanted)


if __name__ == "__main__":
    main(sys.argv[1:])
