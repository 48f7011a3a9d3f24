"""An upstream whose answers report any usage there is, and which keeps what it reported."""

import asyncio
import random
from collections import Counter, defaultdict
from typing import Any, cast

import httptools
import orjson

from policies.ledger import Split, split

_DELAY_S = 0.02
_SLOW_S = 30.0
_PIECES = ("One", " two", " three", " four")

Json = dict[str, Any]


def usage_of(number: int) -> Json:
    """What the answer to a question reports: the same each time."""
    drawn = random.Random(number)
    prompt, completion = drawn.randrange(20, 9_000), drawn.randrange(1, 900)
    usage: Json = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    read = drawn.choice([0, 0, drawn.randrange(prompt)])
    written = drawn.choice([0, drawn.randrange(prompt - read)]) if prompt > read else 0
    if read or written:
        usage["prompt_tokens_details"] = {"cached_tokens": read, "cache_write_tokens": written}
    return usage


class Reported:
    """What the upstream told of its calls, by its own name of the model."""

    def __init__(self) -> None:
        self.splits: dict[str, list[Split]] = defaultdict(list)
        self.untold: Counter[str] = Counter()

    def told(self, model: str, usage: Json | None) -> None:
        """A call ended as it should."""
        parts = split(usage, engine=False)
        if parts is None:
            self.untold[model] += 1
        else:
            self.splits[model].append(parts)


class Connection(asyncio.Protocol):
    """One connection, keep-alive."""

    def __init__(self, reported: Reported) -> None:
        self._reported = reported
        self._parser = httptools.HttpRequestParser(self)
        self._body: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._answering: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop; an answer that nobody waits for is given up."""
        del exc
        if self._answering is not None:
            self._answering.cancel()

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        body = orjson.loads(b"".join(self._body))
        self._body.clear()
        self._answering = asyncio.create_task(self._answer(body))

    async def _answer(self, body: Json) -> None:
        said = body["messages"][-1]["content"]
        said = said if isinstance(said, str) else said[0]["text"]
        kind, _, number = said.partition(" ")
        usage = None if kind == "silent" else usage_of(int(number))
        await asyncio.sleep(_DELAY_S)
        if kind == "error":
            self._whole(400, {"error": {"message": "no", "type": "invalid_request_error", "code": None}})
        elif body["stream"]:
            await self._stream(body, kind, usage)
        elif kind == "cut":
            self._close()
        else:
            self._reported.told(body["model"], usage)
            self._whole(200, {**_head(body, "chat.completion"), **_said(), **({"usage": usage} if usage else {})})

    async def _stream(self, body: Json, kind: str, usage: Json | None) -> None:
        head = _head(body, "chat.completion.chunk")
        self._write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for piece in _PIECES:
            self._event({**head, "choices": [{"index": 0, "delta": {"role": "assistant", "content": piece}}]})
        if kind in ("slow", "cut"):
            self._reported.untold[body["model"]] += 1
            await asyncio.sleep(_SLOW_S if kind == "slow" else 0)
            self._close()
            return
        self._reported.told(body["model"], usage)
        self._event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        if usage is not None:
            self._event({**head, "choices": [], "usage": usage})
        self._chunk(b"data: [DONE]\n\n")
        self._write(b"0\r\n\r\n")

    def _whole(self, status: int, body: Json) -> None:
        raw = orjson.dumps(body)
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(raw)}\r\n\r\n"
        self._write(head.encode() + raw)

    def _event(self, event: Json) -> None:
        self._chunk(b"data: " + orjson.dumps(event) + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self._write(b"%x\r\n%b\r\n" % (len(data), data))

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _head(body: Json, kind: str) -> Json:
    return {"id": "chatcmpl-up", "object": kind, "created": 1_700_000_000, "model": body["model"]}


def _said() -> Json:
    message = {"role": "assistant", "content": "".join(_PIECES), "refusal": None}
    return {"choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}]}
