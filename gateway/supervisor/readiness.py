"""Whether a child answers HTTP yet."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_EVERY_S = 0.1
_ANSWER_WITHIN_S = 5.0


async def until_tcp_answers(host: str, port: int) -> None:
    """Returns once a GET of /health at this address is answered with another status than 5xx."""
    await _until(lambda: asyncio.open_connection(host, port), lambda status: status < 500)  # noqa: PLR2004  (HTTP)


async def until_socket_is_healthy(path: Path) -> None:
    """Returns once a GET of /health on this Unix socket is answered with 200."""
    await _until(lambda: asyncio.open_unix_connection(str(path)), lambda status: status == 200)  # noqa: PLR2004


async def _until(connect: Callable[[], Awaitable[Connection]], good: Callable[[int], bool]) -> None:
    while True:
        try:
            async with asyncio.timeout(_ANSWER_WITHIN_S):
                status = await _ask(connect)
        except (OSError, TimeoutError, ValueError):
            status = None
        if status is not None and good(status):
            return
        await asyncio.sleep(_EVERY_S)


async def _ask(connect: Callable[[], Awaitable[Connection]]) -> int:
    reader, writer = await connect()
    try:
        writer.write(_REQUEST)
        _, status, *_ = (await reader.readline()).split()
        return int(status)
    finally:
        writer.close()
