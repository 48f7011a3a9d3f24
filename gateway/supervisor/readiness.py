"""Whether a child answers HTTP yet."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_GATEWAY_PATH = "/healthz"
_ENGINE_PATH = "/health"
_EVERY_S = 0.1
_ANSWER_WITHIN_S = 5.0


async def until_tcp_answers(host: str, port: int) -> None:
    """Returns once the gateway at this address answers its health check."""
    await _until(lambda: asyncio.open_connection(host, port), _GATEWAY_PATH)


async def until_socket_is_healthy(path: Path) -> None:
    """Returns once the engine on this Unix socket answers its health check: its model is loaded."""
    await _until(lambda: asyncio.open_unix_connection(str(path)), _ENGINE_PATH)


async def _until(connect: Callable[[], Awaitable[Connection]], path: str) -> None:
    while True:
        try:
            async with asyncio.timeout(_ANSWER_WITHIN_S):
                healthy = await _ask(connect, path)
        except (OSError, TimeoutError, ValueError):
            healthy = False
        if healthy:
            return
        await asyncio.sleep(_EVERY_S)


async def _ask(connect: Callable[[], Awaitable[Connection]], path: str) -> bool:
    reader, writer = await connect()
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        _, status, *_ = (await reader.readline()).split()
        return status == b"200"
    finally:
        writer.close()
