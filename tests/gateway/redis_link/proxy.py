"""A small proxy in front of a real Redis that delays, cuts, swallows, or answers with something else."""

import asyncio
import contextlib
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Toxics:
    """What happens to the bytes that come back from Redis.

    Attributes:
        delay_s: each piece is held back this long.
        cut_after: the connection is closed after this many bytes; None never.
        swallow: nothing comes back at all.
        instead: sent once for the first piece, which is dropped.
        appended: sent right behind the first piece.
    """

    delay_s: float = 0.0
    cut_after: int | None = None
    swallow: bool = False
    instead: bytes | None = None
    appended: bytes = b""


@dataclass(slots=True)
class Proxy:
    """Listens on a Unix socket; `toxics` may be changed between connections.

    Attributes:
        heard: the pieces that clients sent, as they were read.
        connections: how many were accepted.
    """

    upstream: Path
    path: Path
    toxics: Toxics = field(default_factory=Toxics)
    heard: list[bytes] = field(default_factory=list)
    connections: int = 0
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        """For a target."""
        return f"unix://{self.path}"

    async def start(self) -> None:
        """Begins to listen."""
        self._server = await asyncio.start_unix_server(self._accept, str(self.path))

    async def close(self) -> None:
        """Stops listening and drops every connection."""
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            from_redis, to_redis = await asyncio.open_unix_connection(str(self.upstream))
            sending = asyncio.create_task(self._forth(reader, to_redis))
            try:
                await self._back(from_redis, writer)
            finally:
                sending.cancel()
                to_redis.close()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _forth(self, reader: asyncio.StreamReader, to_redis: asyncio.StreamWriter) -> None:
        while piece := await reader.read(1 << 20):
            self.heard.append(piece)
            to_redis.write(piece)
        to_redis.close()

    async def _back(self, from_redis: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent, first, toxics = 0, True, self.toxics
        while piece := await from_redis.read(1 << 16):
            if toxics.swallow:
                continue
            if toxics.delay_s:
                await asyncio.sleep(toxics.delay_s)
            if first:
                piece = (piece if toxics.instead is None else toxics.instead) + toxics.appended
                first = False
            if toxics.cut_after is not None:
                piece = piece[: toxics.cut_after - sent]
            writer.write(piece)
            sent += len(piece)
            with contextlib.suppress(OSError):
                await writer.drain()
            if sent == toxics.cut_after:
                return
