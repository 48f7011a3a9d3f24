"""An upstream that answers at once, whole or as 44 events: `python -m bench.fake_upstream --port N`."""

import argparse
import asyncio
from typing import cast

import httptools
import orjson
import uvloop

_TEXT = (
    "Paris is the capital of France, and has been for most of its history, which is why people ask for it. " * 2
)
_PIECES = [_TEXT[start : start + 5] for start in range(0, len(_TEXT), 5)]
_USAGE = {"prompt_tokens": 230, "completion_tokens": 42, "total_tokens": 272}


def _whole() -> bytes:
    message = {"role": "assistant", "content": _TEXT, "refusal": None}
    body = orjson.dumps(
        {
            "id": "chatcmpl-upstream",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": "m",
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
            "usage": _USAGE,
        }
    )
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def _events() -> bytes:
    head = {"id": "chatcmpl-upstream", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m"}
    deltas: list[dict[str, str]] = [
        {"role": "assistant", "content": ""},
        *({"content": piece} for piece in _PIECES),
    ]
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    chunks.append({**head, "choices": [], "usage": _USAGE})
    body = b"".join(b"data: " + orjson.dumps(chunk) + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
    start = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body)
    return start + body


class FakeUpstream(asyncio.Protocol):
    """One connection, keep-alive."""

    def __init__(self, delay_s: float, whole: bytes, events: bytes) -> None:
        self._delay_s = delay_s
        self._whole = whole
        self._events = events
        self._parser = httptools.HttpRequestParser(self)
        self._body: list[bytes] = []
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        streaming = b'"stream":true' in b"".join(self._body)
        self._body.clear()
        answer = self._events if streaming else self._whole
        if self._transport is not None and self._delay_s:
            asyncio.get_running_loop().call_later(self._delay_s, self._transport.write, answer)
        elif self._transport is not None:
            self._transport.write(answer)


async def serve(port: int, delay_s: float) -> None:
    """Serves until it is stopped."""
    whole, events = _whole(), _events()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: FakeUpstream(delay_s, whole, events), "127.0.0.1", port)
    await server.serve_forever()


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--delay-ms", type=float, default=0.0)
    given = parser.parse_args()
    uvloop.run(serve(given.port, given.delay_ms / 1000))


if __name__ == "__main__":
    main()
