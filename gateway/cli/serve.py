"""`lamina serve`."""

import sys
from pathlib import Path

import click

from gateway.settings import settings_from_environment
from gateway.supervisor.serve import serve as run_set


@click.command()
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Settings file; else LAMINA_CONFIG, else lamina.toml in the working folder.",
)
def serve(config: Path | None) -> None:
    """Starts Redis, the engine and the gateway on this machine, and keeps them running.

    Settings come from lamina.toml and LAMINA_* variables. REDIS_URL, DATABASE_URL and ENGINE_URL name services
    that run elsewhere; what they name is not started here.
    """
    sys.exit(run_set(settings_from_environment(config)))
