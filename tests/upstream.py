"""A scripted OpenAI upstream on a real socket, for tests and benchmarks.

In a test: `async with Upstream() as upstream:` then `upstream.enqueue(Script(...))` for the next calls; a call
that finds no script queued gets `upstream.default`. Apart: `python -m tests.upstream --port 9000 --delay-ms 50`.
It is raw asyncio, so that it can break off, stall and lie wherever a script says.
"""

import argparse
import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, cast

import orjson

from gateway.protocols.sse import DONE, event_bytes

Json = dict[str, Any]

USAGE: Json = {"prompt_tokens": 7, "completion_tokens": 4, "total_tokens": 11}
USAGE["prompt_tokens_details"] = {"cached_tokens": 0}
_MODELS: Json = {"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "tests"}]}


@dataclass(frozen=True, kw_only=True)
class Script:
    """What one call is answered with.

    Attributes:
        pieces: content deltas of each choice; joined for a whole answer. None sends no content at all.
        n: number of choices; choice i > 0 says `pieces` with `#i` behind.
        tool_calls: calls of each choice, in whole-answer form.
        finish_reason: of each choice; None sends none.
        usage: None sends none; a stream sends it only when `stream_options.include_usage` asks.
        extra: further top-level fields of the answer or of each chunk.
        echo: the content is the request's body as JSON.
        delay_s: before the first byte.
        piece_delay_s, whole_delay_s: before each event of a stream, `[DONE]` included; before a whole answer.
        status, headers, body: of the reply; `body` (object or bytes) replaces the whole answer.
        content_type: overrides the one that fits.
        events: replaces the events of a stream: objects, or bytes sent as they are.
        cut_after: the connection is dropped after this many events; for a whole answer, after that many bytes.
        hang_after: no more is sent after this many events (0: not even a status line), until the client leaves.
        error_after: an event with the error object `error` takes the place of what follows this many events.
        done: whether `[DONE]` ends the stream.
        drop: the connection is dropped before any byte.
    """

    pieces: Sequence[str] | None = ("Hello", " from", " up", "stream")
    n: int = 1
    tool_calls: Sequence[Json] = ()
    finish_reason: str | None = "stop"
    usage: Json | None = field(default_factory=lambda: dict(USAGE))
    extra: Mapping[str, Any] = field(default_factory=dict)
    echo: bool = False
    delay_s: float = 0.0
    piece_delay_s: float = 0.0
    whole_delay_s: float = 0.0
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Json | bytes | None = None
    content_type: str | None = None
    events: Sequence[Json | bytes] | None = None
    cut_after: int | None = None
    hang_after: int | None = None
    error_after: int | None = None
    error: Json = field(default_factory=lambda: {"message": "failed", "type": "server_error", "code": None})
    done: bool = True
    drop: bool = False


@dataclass(frozen=True)
class Call:
    """One request as it came; header names in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> Json:
        """The JSON body."""
        body: Json = json.loads(self.raw)
        return body


class Upstream:
    """A server that answers by script and counts.

    Args:
        port: 0 for any.
        path: listen on this Unix socket instead.

    Attributes:
        calls: requests so far, unless `keep_calls` is false; `count` is how many.
        connections: connections accepted so far.
        disconnects: clients that left before their answer was complete.
        default: answers calls that find no script queued.
    """

    def __init__(self, *, port: int = 0, path: Path | None = None) -> None:
        self.calls: list[Call] = []
        self.count = 0
        self.connections = 0
        self.disconnects = 0
        self.default = Script()
        self.keep_calls = True
        self._changed = asyncio.Event()
        self._port = port
        self._path = path
        self._scripts: deque[Script] = deque()
        self._open: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        if self._path is not None:
            self._server = await loop.create_unix_server(lambda: _Connection(self), str(self._path))
        else:
            self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", self._port)
            self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in list(self._open):
            connection.abort()
        await self._server.wait_closed()

    @property
    def base_url(self) -> str:
        """What a provider's `base_url` is set to."""
        return f"unix://{self._path}" if self._path else f"http://127.0.0.1:{self._port}/v1"

    def enqueue(self, *scripts: Script) -> None:
        """Scripts for the next calls, in order."""
        self._scripts.extend(scripts)

    def drop_idle(self) -> None:
        """Closes the connections that wait for a request, as a server does after its keep-alive time."""
        for connection in list(self._open):
            connection.close_if_idle()

    async def until(self, *, calls: int = 0, disconnects: int = 0, within_s: float = 1.0) -> None:
        """Returns once so many calls have come and clients have left; raises TimeoutError when not in time."""
        async with asyncio.timeout(within_s):
            while self.count < calls or self.disconnects < disconnects:
                self._changed.clear()
                await self._changed.wait()

    def take(self, call: Call) -> Script:
        """Records a call and gives its script."""
        self.count += 1
        self._changed.set()
        if self.keep_calls:
            self.calls.append(call)
        return self._scripts.popleft() if self._scripts else self.default

    def joined(self, connection: "_Connection") -> None:
        """A connection was made."""
        self.connections += 1
        self._open.add(connection)

    def left(self, connection: "_Connection", *, early: bool) -> None:
        """A connection was lost, `early` when its answer was not complete."""
        self.disconnects += early
        self._changed.set()
        self._open.discard(connection)


class _Connection(asyncio.Protocol):
    """One connection: HTTP/1.1 with Content-Length bodies, one request at a time."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._buffer = bytearray()
        self._answer: asyncio.Task[None] | None = None
        self._dropped = False
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports subclass nothing
        self._upstream.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (the protocol's signature)
        busy = self._answer is not None and not self._answer.done()
        self._upstream.left(self, early=busy and not self._dropped)
        if self._answer:
            self._answer.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0 or (self._answer is not None and not self._answer.done()):
            return
        lines = self._buffer[:head_end].decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines[1:])
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        end = head_end + 4 + int(headers.get("content-length", "0"))
        if len(self._buffer) < end:
            return
        raw = bytes(self._buffer[head_end + 4 : end])
        del self._buffer[:end]
        method, path, _ = lines[0].split(" ", 2)
        call = Call(method, path, headers, raw)
        script = self._upstream.take(call)
        self._answer = asyncio.get_running_loop().create_task(self._run(call, script))

    def abort(self) -> None:
        self._dropped = True
        self._transport.abort()

    def close_if_idle(self) -> None:
        if self._answer is None or self._answer.done():
            self._transport.close()

    async def _run(self, call: Call, script: Script) -> None:
        if script.delay_s:
            await asyncio.sleep(script.delay_s)
        if script.drop:
            self._drop()
        elif script.hang_after == 0:
            await asyncio.Event().wait()
        elif call.method != "POST":
            self._reply(script, _MODELS)
        elif script.body is not None or script.status != 200 or not call.body.get("stream"):
            await asyncio.sleep(script.whole_delay_s)
            self._reply(script, script.body if script.body is not None else _completion(call, script))
        else:
            await self._stream(call, script)

    def _reply(self, script: Script, body: Json | bytes) -> None:
        payload = body if isinstance(body, bytes) else orjson.dumps(body)
        head = _head(script, "application/json", f"content-length: {len(payload)}")
        self._transport.write(head + payload[: script.cut_after])
        if script.cut_after is not None:
            self._drop()

    async def _stream(self, call: Call, script: Script) -> None:
        self._transport.write(_head(script, "text/event-stream; charset=utf-8", "transfer-encoding: chunked"))
        events = script.events if script.events is not None else _chunks(call, script)
        for sent, event in enumerate([*events, DONE if script.done else b""]):
            if script.cut_after == sent:
                self._drop()
                return
            if script.hang_after == sent:
                await asyncio.Event().wait()
            if script.piece_delay_s:
                await asyncio.sleep(script.piece_delay_s)
            if script.error_after == sent:
                self._send(event_bytes({"error": script.error}))
                break
            if event:
                self._send(event if isinstance(event, bytes) else event_bytes(event))
        self._transport.write(b"0\r\n\r\n")

    def _send(self, data: bytes) -> None:
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _drop(self) -> None:
        self._dropped = True
        self._transport.close()


def _head(script: Script, content_type: str, framing: str) -> bytes:
    lines = [f"HTTP/1.1 {script.status} X", f"content-type: {script.content_type or content_type}", framing]
    lines.extend(f"{name}: {value}" for name, value in script.headers.items())
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _content(call: Call, script: Script, index: int) -> list[str] | None:
    if script.echo:
        return [call.raw.decode()]
    if script.pieces is None:
        return None
    return [*script.pieces, *([f"#{index}"] if index else [])]


def _completion(call: Call, script: Script) -> Json:
    choices = []
    for index in range(script.n):
        content = _content(call, script, index)
        message: Json = {"role": "assistant", "content": None if content is None else "".join(content)}
        if script.tool_calls:
            message["tool_calls"] = list(script.tool_calls)
        choices.append({"index": index, "message": message, "finish_reason": script.finish_reason})
    body = {"id": "chatcmpl-up", "object": "chat.completion", "created": 1700000000, **script.extra}
    body |= {"model": call.body.get("model"), "choices": choices}
    return body if script.usage is None else body | {"usage": script.usage}


def _chunks(call: Call, script: Script) -> list[Json]:
    asked = bool((call.body.get("stream_options") or {}).get("include_usage"))
    head: Json = {"id": "chatcmpl-up", "object": "chat.completion.chunk", "created": 1700000000, **script.extra}
    head |= {"model": call.body.get("model")} | ({"usage": None} if asked else {})
    contents = [_content(call, script, index) for index in range(script.n)]
    deltas: list[tuple[int, Json]] = [
        (index, {"role": "assistant", "content": None if content is None else ""})
        for index, content in enumerate(contents)
    ]
    for step in range(max((len(content or ()) for content in contents), default=0)):
        some = ((index, content) for index, content in enumerate(contents) if content and step < len(content))
        deltas.extend((index, {"content": content[step]}) for index, content in some)
    for index in range(script.n):
        for at, call_object in enumerate(script.tool_calls):
            function = call_object["function"]
            first = {**call_object, "index": at, "function": {**function, "arguments": ""}}
            more = {"index": at, "function": {"arguments": function["arguments"]}}
            deltas.extend((index, {"tool_calls": [part]}) for part in (first, more))
    parts = [{"index": index, "delta": delta, "finish_reason": None} for index, delta in deltas]
    if script.finish_reason is not None:
        finish: Json = {"delta": {}, "finish_reason": script.finish_reason}
        parts.extend({"index": index, **finish} for index in range(script.n))
    chunks = [{**head, "choices": [part]} for part in parts]
    if asked and script.usage is not None:
        chunks.append({**head, "choices": [], "usage": script.usage})
    return chunks


async def _serve(options: argparse.Namespace) -> None:
    words = tuple(f" word{number}" for number in range(options.pieces))
    delay_s = options.delay_ms / 1000
    async with Upstream(port=options.port, path=options.unix) as upstream:
        upstream.keep_calls = False
        upstream.default = Script(pieces=words, delay_s=delay_s, piece_delay_s=options.piece_delay_ms / 1000)
        print(upstream.base_url, flush=True)  # noqa: T201  (the caller reads the address)
        await asyncio.Event().wait()


def main() -> None:
    """Serves one script to all until stopped; prints its address first."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--unix", type=Path)
    parser.add_argument("--delay-ms", type=float, default=0.0)
    parser.add_argument("--piece-delay-ms", type=float, default=0.0)
    parser.add_argument("--pieces", type=int, default=44)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
