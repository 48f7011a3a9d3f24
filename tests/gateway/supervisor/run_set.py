"""Runs `lamina serve` with stand-ins for the gateway and the engine: `run_set.py [APP]`."""

import sys

from gateway.errors import LaminaError
from gateway.settings import settings_from_environment
from gateway.supervisor.programs import Modules
from gateway.supervisor.serve import serve

if __name__ == "__main__":
    app = sys.argv[1] if len(sys.argv) > 1 else "tests.gateway.supervisor.stub_app:create_app"
    try:
        status = serve(
            settings_from_environment(), Modules(app=app, engine="tests.gateway.supervisor.stub_engine")
        )
    except LaminaError as error:
        sys.stderr.write(f"error: {error}\n")
        status = 1
    sys.exit(status)
