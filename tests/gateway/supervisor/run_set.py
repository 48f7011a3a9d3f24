"""Runs `lamina serve` with stand-ins for gateway, engine and service: `run_set.py APP ENGINE [SEMANTIC]`."""

import sys

from gateway.errors import LaminaError
from gateway.settings import settings_from_environment
from gateway.supervisor.programs import Modules
from gateway.supervisor.serve import serve

if __name__ == "__main__":
    try:
        status = serve(settings_from_environment(), Modules(*sys.argv[1:]))
    except LaminaError as error:
        sys.stderr.write(f"error: {error}\n")
        status = 1
    sys.exit(status)
