"""Serving the app on a Unix socket or a TCP port until a signal says stop."""

import contextlib
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import uvicorn

from semantic.app import App
from semantic.errors import ConfigError
from semantic.options import Options

_BACKLOG = 512
_KEEP_ALIVE_S = 75
_PRIVATE = 0o600


@contextlib.contextmanager
def listening(options: Options) -> Iterator[socket.socket]:
    """Bind and listen; a Unix socket is private to the user and removed at the end.

    Raises:
        ConfigError: the address is in use or cannot be bound.
    """
    path = options.socket
    with socket.socket(socket.AF_INET if path is None else socket.AF_UNIX) as listener:
        try:
            if path is None:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((options.host, options.port))
            else:
                _remove_stale(path)
                listener.bind(str(path))
                path.chmod(_PRIVATE)
            listener.listen(_BACKLOG)
        except OSError as error:
            where = path or f"{options.host}:{options.port}"
            raise ConfigError(f"cannot listen on {where}: {error.strerror or error}") from error
        try:
            yield listener
        finally:
            if path is not None:
                path.unlink(missing_ok=True)


def serve(app: App, listener: socket.socket, drain_s: float) -> None:
    """Serve until SIGTERM or SIGINT, then finish open requests for at most `drain_s` seconds."""
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        lifespan="on",
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, round(drain_s)),
    )
    server = uvicorn.Server(config)

    def stop(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001  (the signal module's shape)
        server.should_exit = True

    # Before uvicorn's own handlers are in place, and after, when it raises the signal again: that must not cut
    # our clean-up short.
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    server.run(sockets=[listener])


def _remove_stale(path: Path) -> None:
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
