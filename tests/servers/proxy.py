"""A forward proxy for tests: CONNECT by its one user, and a record of who was asked for."""

import asyncio
import base64
import contextlib
from types import TracebackType
from typing import Self

_OK = b"HTTP/1.1 200 Connection established\r\n\r\n"
_UNKNOWN = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"


class ForwardProxy:
    """Listens on a port of the loopback.

    Args:
        user: `name:password`, asked for with each CONNECT.
        silent: whether it accepts and says nothing.

    Attributes:
        port: where it listens.
        asked: targets of CONNECT, with or without success.
        passed: what clients sent through.
    """

    def __init__(self, user: str, *, silent: bool = False) -> None:
        self.port = 0
        self.asked: list[str] = []
        self.passed = b""
        self._credentials = base64.b64encode(user.encode())
        self._silent = silent
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0.02)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            try:
                await self._talk(reader, writer)
            finally:
                writer.transport.abort()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head.split()[1].decode())
        if self._silent:
            await reader.read()
            return
        if self._credentials not in head:
            writer.write(_UNKNOWN)
            await writer.drain()
            await reader.read()
            return
        host, _, port = self.asked[-1].rpartition(":")
        from_target, to_target = await asyncio.open_connection(host, int(port))
        writer.write(_OK)
        back = asyncio.create_task(_copy(from_target, writer))
        try:
            while data := await reader.read(65536):
                self.passed += data
                to_target.write(data)
        finally:
            back.cancel()
            to_target.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
