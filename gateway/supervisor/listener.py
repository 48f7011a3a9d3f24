"""The TCP socket that the workers share."""

import errno
import socket

from gateway.supervisor.errors import StartError

BACKLOG = 2048


def bind(host: str, port: int) -> socket.socket:
    """Listens; connections wait in the backlog until a worker takes them.

    Args:
        host: a name or an address; the first one it stands for is used.
        port: 0 lets the system choose.

    Raises:
        StartError: the port is in use, or the address is not this machine's.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise StartError(f"cannot listen on {host}: {error.strerror}") from None
    family, _, _, _, address = found[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise StartError(f"port {port} on {host} is in use; set LAMINA_PORT to another one") from None
        raise StartError(f"cannot listen on {host} port {port}: {error.strerror}") from None
    return listener


def reachable_address(listener: socket.socket) -> tuple[str, int]:
    """Host and port under which this machine itself reaches the listener."""
    host, port = listener.getsockname()[:2]
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port  # noqa: S104  (told apart, not bound)


def url_of(listener: socket.socket) -> str:
    """The base URL that clients on this machine use."""
    host, port = reachable_address(listener)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
