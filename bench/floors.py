"""The floors an exact hit is compared with: bare uvicorn, and the same with one Redis GET and a SHA-256.

`python -m bench.floors --kind bare|redis_get|redis_get_pipelined --port N --reply FILE --redis unix:///… `
"""

import argparse
import asyncio
import hashlib
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import hiredis
import orjson
import redis.asyncio
import uvicorn

Get = Callable[[str], Awaitable[Any]]


async def bare(receive: Any, send: Any, reply: bytes) -> None:
    """Reads the body, returns the same bytes."""
    while (await receive()).get("more_body"):
        pass
    await _reply(send, reply)


async def _reply(send: Any, reply: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(reply))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": reply})


async def with_get(receive: Any, send: Any, get: Get) -> None:
    """The same with a key of canonical JSON and one GET."""
    message = await receive()
    body = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
    canonical = orjson.dumps(orjson.loads(body), option=orjson.OPT_SORT_KEYS)
    found = await get("floor:" + hashlib.sha256(canonical).hexdigest())
    await _reply(send, found or b"{}")


class PipelinedGet(asyncio.Protocol):
    """GETs of one loop turn in one write; no deadline, no checks: a floor, not a client."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader()
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._out: list[bytes] = []
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            self._waiting.popleft().set_result(reply)

    def get(self, key: str) -> asyncio.Future[Any]:
        """One GET."""
        loop = asyncio.get_running_loop()
        if not self._out:
            loop.call_soon(self._flush)
        self._out.append(hiredis.pack_command(("GET", key)))  # type: ignore[arg-type]  # the stub says a 1-tuple
        future = loop.create_future()
        self._waiting.append(future)
        return future

    def _flush(self) -> None:
        self._transport.write(b"".join(self._out))
        self._out.clear()


class Floor:
    """The ASGI app of one kind."""

    def __init__(self, kind: str, reply: bytes, redis_path: str) -> None:
        self._kind = kind
        self._reply = reply
        self._redis_path = redis_path
        self._get: Get | None = None

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        """Answers."""
        if self._kind == "bare":
            await bare(receive, send, self._reply)
            return
        if self._get is None:
            self._get = await self._connect()
        await with_get(receive, send, self._get)

    async def _connect(self) -> Get:
        if self._kind == "redis_get":
            client = redis.asyncio.Redis(unix_socket_path=self._redis_path, max_connections=256)
            get: Get = client.get
            return get
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_unix_connection(PipelinedGet, self._redis_path)
        return protocol.get


def main() -> None:
    """Serves one floor until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("bare", "redis_get", "redis_get_pipelined"), required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--reply", type=Path, required=True)
    parser.add_argument("--redis", default="")
    given = parser.parse_args()
    app = Floor(given.kind, given.reply.read_bytes(), given.redis)
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=given.port,
        http="httptools",
        loop="uvloop",
        access_log=False,
        log_level="error",
        lifespan="off",
        timeout_keep_alive=75,
    )


if __name__ == "__main__":
    main()
