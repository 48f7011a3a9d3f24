"""A model whose answers carry a version: what it says now is what nobody may hear once a purge has returned."""

import asyncio
import collections
import random
from typing import Self

import orjson

_MOST_DELAY_S = 0.02


class VersionedUpstream:
    """Answers every chat with the version as it was when the question came, some milliseconds later.

    Attributes:
        version: raised by whoever purges, before the purge.
        calls: how many questions came.
    """

    def __init__(self, seed: int) -> None:
        self.version = 0
        self.calls = 0
        self._draw = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._computing: collections.Counter[int] = collections.Counter()

    def computes_below(self, version: int) -> bool:
        """Whether an answer with a version below this is still to be given."""
        return any(count > 0 for said, count in self._computing.items() if said < version)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    @property
    def base_url(self) -> str:
        """What a provider's `base_url` is set to."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.decode("latin-1").lower().split("\r\n")
                size = next((int(line[15:]) for line in lines if line.startswith("content-length:")), 0)
                body = orjson.loads(await reader.readexactly(size)) if size else {}
                await self._answer(writer, stream=bool(body.get("stream")))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, *, stream: bool) -> None:
        said = self.version
        self.calls += 1
        self._computing[said] += 1
        try:
            await asyncio.sleep(self._draw.random() * _MOST_DELAY_S)
            writer.write(_answer(said, stream=stream))
            await writer.drain()
        finally:
            self._computing[said] -= 1


def _answer(version: int, *, stream: bool) -> bytes:
    head = {"id": f"chatcmpl-{version}", "created": 1_700_000_000, "model": "m"}
    text = f"version {version}"
    if not stream:
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        payload = orjson.dumps({**head, "object": "chat.completion", "choices": [choice]})
        return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
            len(payload),
            payload,
        )
    deltas = [({"role": "assistant", "content": text}, None), ({}, "stop")]
    chunks = [
        {
            **head,
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": delta, "finish_reason": end}],
        }
        for delta, end in deltas
    ]
    payload = b"".join(b"data: " + orjson.dumps(chunk) + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
    kind = b"text/event-stream"
    return b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (kind, len(payload), payload)
