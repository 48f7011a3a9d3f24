"""Serving an ASGI app on a Unix socket or a TCP port until a signal says stop."""

import contextlib
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import uvicorn

from engine.app import App
from engine.config import Address
from engine.errors import EngineError

_BACKLOG = 512
_KEEP_ALIVE_S = 75
_PRIVATE = 0o600


@contextlib.contextmanager
def listening(address: Address) -> Iterator[socket.socket]:
    """Bind and listen; a Unix socket is private to the user and removed at the end.

    Raises:
        EngineError: the address is in use or cannot be bound.
    """
    family = socket.AF_INET if address.path is None else socket.AF_UNIX
    with socket.socket(family) as listener:
        try:
            if address.path is None:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((address.host, address.port))
            else:
                _remove_stale(address.path)
                listener.bind(str(address.path))
                address.path.chmod(_PRIVATE)
            listener.listen(_BACKLOG)
        except OSError as error:
            where = address.path or f"{address.host}:{address.port}"
            raise EngineError(f"cannot listen on {where}: {error.strerror or error}") from error
        try:
            yield listener
        finally:
            if address.path is not None:
                address.path.unlink(missing_ok=True)


def serve(app: App, listener: socket.socket, drain_s: float) -> None:
    """Serve until SIGTERM or SIGINT, then finish open requests for at most `drain_s` seconds."""
    server = uvicorn.Server(http_config(app, drain_s))

    def stop(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001  (the signal module's shape)
        server.should_exit = True

    # Before uvicorn's own handlers are in place, and after, when it raises the signal again: that must not cut
    # our clean-up short.
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    server.run(sockets=[listener])


def http_config(app: App, drain_s: float) -> uvicorn.Config:
    """Build the HTTP server's settings."""
    return uvicorn.Config(
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


def _remove_stale(path: Path) -> None:
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
