"""Streams of chunks: one that is still coming in, and one made of an answer that came whole."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import aiohttp
import orjson

from gateway.errors import UpstreamError
from gateway.protocols.assemble import render_chunks
from gateway.protocols.sse import SseError, SseEvent, SseParser
from gateway.providers.faults import CUT, FOREIGN, GARBLED, failed, from_foreign, refused
from policies.types import ChatResponse

MAX_STREAM_BYTES = 64 << 20
"""Longest stream that is relayed: everybody who may still join an answer gets all of it, so all of it is kept."""

_DONE = b"[DONE]"
_DRAIN_S = 0.1


class LiveStream:
    """An event stream of the upstream, read as it comes. Meets ChunkStream.

    Args:
        response: status 200, nothing read yet; the stream closes it.
        headers: to relay.
        redact: takes what no client may see out of an error's text.
    """

    def __init__(
        self, response: aiohttp.ClientResponse, headers: Mapping[str, str], redact: Callable[[bytes], bytes]
    ) -> None:
        self.headers = headers
        self._response = response
        self._redact = redact
        self._parser = SseParser()
        self._ready: deque[dict[str, Any]] = deque()
        self._fault: UpstreamError | None = None
        self._done = False
        self._left_bytes = MAX_STREAM_BYTES

    async def begin(self) -> None:
        """Waits for the first chunk.

        Raises:
            UpstreamError: something else came.
        """
        await self._fill()
        if not self._ready:
            self._response.close()
            raise failed(CUT)

    def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        return self

    async def __anext__(self) -> dict[str, Any]:
        if not self._ready:
            await self._fill()
        if not self._ready:
            raise StopAsyncIteration
        return self._ready.popleft()

    async def close(self) -> None:
        """Releases the connection: for the next call when the upstream is done, else by aborting it."""
        try:
            if self._done and not self._response.closed:
                with contextlib.suppress(*FOREIGN):
                    async with asyncio.timeout(_DRAIN_S):
                        await self._response.content.wait_eof()
        finally:
            self._response.close()

    async def _fill(self) -> None:
        """Reads until a chunk is ready or the stream is done; a fault is raised after what came before it."""
        while not self._ready and not self._done:
            if self._fault is not None:
                raise self._fault
            try:
                data = await self._response.content.readany()
            except FOREIGN as error:
                self._fail(from_foreign(error))
            except BaseException:
                self._fail(failed(CUT))
                raise
            else:
                self._take(data)

    def _take(self, data: bytes) -> None:
        self._left_bytes -= len(data)
        if self._left_bytes < 0:
            self._fail(failed(GARBLED))
            return
        try:
            events = self._parser.feed(data)
        except SseError:
            self._fail(failed(GARBLED))
            return
        for event in events:
            self._event(event)
            if self._done or self._fault is not None:
                return
        if not data:
            last = self._parser.finish()
            self._done = last is not None and last.data.strip() == _DONE
            if not self._done:
                self._fail(failed(CUT))

    def _event(self, event: SseEvent) -> None:
        if event.data == _DONE or event.data.strip() == _DONE:
            self._done = True
            return
        if not event.data:
            return
        try:
            chunk = orjson.loads(event.data)
        except orjson.JSONDecodeError:
            chunk = None
        if event.name == "error" or (isinstance(chunk, dict) and chunk.get("error")):
            self._fail(refused(self._response.status, self._redact(event.data), self.headers))
        elif isinstance(chunk, dict) and isinstance(chunk.get("choices"), list):
            self._ready.append(chunk)
        else:
            self._fail(failed(GARBLED))

    def _fail(self, error: UpstreamError) -> None:
        self._fault = error
        self._response.close()


class WholeStream:
    """A whole answer as a stream, for upstreams that do not stream. Meets ChunkStream."""

    def __init__(self, response: ChatResponse, headers: Mapping[str, str]) -> None:
        self.headers = headers
        self._chunks = iter(
            render_chunks(response, response.id, response.created, response.model, include_usage=True)
        )

    def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        return self

    async def __anext__(self) -> dict[str, Any]:
        for chunk in self._chunks:
            return chunk
        raise StopAsyncIteration

    async def close(self) -> None:
        """Drops what is left."""
        self._chunks = iter(())
