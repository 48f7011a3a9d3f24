"""`python -m gateway`, and the `lamina` program."""

import sys

from gateway.cli import lamina
from gateway.errors import LaminaError


def main() -> None:
    """Runs the command line; an error of ours is one line on standard error and status 1."""
    try:
        lamina(prog_name="lamina")
    except LaminaError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
