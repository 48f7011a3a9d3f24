"""One gateway worker: uvicorn on a listener that the supervisor bound. `python -m gateway.worker --fd N …`."""

import asyncio
import gc
import importlib
import math
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import uvicorn
import uvloop

from gateway.bounded import BoundedProtocol
from gateway.errors import LaminaError, SettingsError
from gateway.settings import Settings, load_resolved
from gateway.supervisor.listener import BACKLOG

_KEEP_ALIVE_S = 75
_COLLECT_AFTER = (50_000, 20, 50)
"""A request makes hundreds of objects and hardly a cycle; by default the collector would run at nearly each."""


def server_for(app: Any, settings: Settings) -> uvicorn.Server:
    """A server with every limit set; uvicorn's own defaults wait for ever."""
    config = uvicorn.Config(
        app,
        loop="none",
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=math.ceil(settings.limits.drain_s),
    )
    return uvicorn.Server(config)


def app_factory(name: str) -> Callable[[Settings], Any]:
    """The function behind `module:function`.

    Raises:
        SettingsError: there is none.
    """
    module, _, attribute = name.partition(":")
    factory: Callable[[Settings], Any] | None = getattr(importlib.import_module(module), attribute, None)
    if factory is None:
        raise SettingsError(f"{name} is not a function")
    return factory


@click.command()
@click.option("--fd", type=int, required=True, help="Descriptor of the listening socket.")
@click.option("--settings", "path", type=click.Path(path_type=Path), required=True, help="Resolved settings.")
@click.option("--app", default="gateway.app:create_app", help="Makes the ASGI app from settings.")
def main(fd: int, path: Path, app: str) -> None:
    """Serves until SIGTERM; requests in flight are answered first."""
    try:
        settings = load_resolved(path)
        server = server_for(app_factory(app)(settings), settings)
    except LaminaError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(1)
    gc.freeze()  # what start-up made lives for ever: the collector need not look at it again
    gc.set_threshold(*_COLLECT_AFTER)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(server.serve(sockets=[socket.socket(fileno=fd)]))


if __name__ == "__main__":
    main()
