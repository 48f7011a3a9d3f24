"""HTTP/1.1 over a raw socket, for what the SDK cannot say or does not show."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any, Self

import orjson

from tests.gateway.stand import KEY, Stand

CHAT = "/v1/chat/completions"
REPLY_WITHIN_S = 15.0

Pair = tuple[str, str]
Pairs = Iterable[Pair]


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply; header names in lower case."""

    status: int
    pairs: tuple[tuple[str, str], ...]
    body: bytes

    def __getitem__(self, name: str) -> str:
        return dict(self.pairs)[name]

    def get(self, name: str) -> str | None:
        return dict(self.pairs).get(name)

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def text(self) -> str:
        """Of the first choice."""
        return str(self.json["choices"][0]["message"]["content"])

    @property
    def events(self) -> list[Any]:
        """The objects of an event stream; `[DONE]` stands for itself."""
        blocks = self.body.decode().split("\n\n")
        assert blocks.pop() == "", "the last event is not closed by a blank line"
        return [_event(block) for block in blocks]


def _event(block: str) -> Any:
    field, _, data = block.partition(": ")
    assert field == "data", f"a line that is no data line: {block!r}"
    return data if data == "[DONE]" else orjson.loads(data)


class Line:
    """One connection; requests one after another."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, it: Stand) -> Self:
        host, _, port = it.url.removeprefix("http://").partition(":")
        return cls(*await asyncio.open_connection(host, int(port), limit=1 << 22))

    async def send(self, raw: bytes) -> None:
        self.writer.write(raw)
        await self.writer.drain()

    async def head(self) -> Reply:
        """Status and headers of the next reply; its body is still to come."""
        async with asyncio.timeout(REPLY_WITHIN_S):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        named = (line.partition(":") for line in lines[1:] if line)
        pairs = tuple((name.strip().lower(), value.strip()) for name, _, value in named)
        return Reply(int(lines[0].split(" ")[1]), pairs, b"")

    async def reply(self, *, bodiless: bool = False) -> Reply:
        """The next reply, whole."""
        head = await self.head()
        if bodiless or head.status == 204:
            return head
        async with asyncio.timeout(REPLY_WITHIN_S):
            if head.get("transfer-encoding") == "chunked":
                body = b"".join([part async for part in self.parts()])
            else:
                body = await self.reader.readexactly(int(head["content-length"]))
        return Reply(head.status, head.pairs, body)

    async def parts(self) -> AsyncIterator[bytes]:
        """The chunks of a chunked body as they come."""
        while size := int(await self.reader.readline(), 16):
            yield await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


@contextlib.asynccontextmanager
async def line(it: Stand) -> AsyncIterator[Line]:
    """A connection for the time of the block."""
    opened = await Line.open(it)
    try:
        yield opened
    finally:
        await opened.close()


def message(method: str, path: str, headers: Pairs, body: bytes) -> bytes:
    """The bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def said(text: str, **fields: Any) -> dict[str, Any]:
    """A chat body with one user message."""
    return {"model": "m", "messages": [{"role": "user", "content": text}], **fields}


def chat_request(body: Any, headers: Pairs = (), key: str | None = KEY, path: str = CHAT) -> bytes:
    """A chat request; `body` is an object, or bytes sent as they are."""
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    usual = [("host", "lamina"), ("content-type", "application/json"), ("content-length", str(len(raw)))]
    if key is not None:
        usual.append(("authorization", f"Bearer {key}"))
    return message("POST", path, [*usual, *headers], raw)


async def ask(it: Stand, body: Any, *headers: Pair, key: str | None = KEY, path: str = CHAT) -> Reply:
    """One chat request on a connection of its own."""
    async with line(it) as opened:
        await opened.send(chat_request(body, headers, key, path))
        return await opened.reply()


async def fetch(it: Stand, path: str, *headers: Pair, key: str | None = KEY, method: str = "GET") -> Reply:
    """One request without a body."""
    usual = [("host", "lamina"), *([("authorization", f"Bearer {key}")] if key is not None else [])]
    async with line(it) as opened:
        await opened.send(message(method, path, [*usual, *headers], b""))
        return await opened.reply(bodiless=method == "HEAD")


def metric(page: bytes, name: str, **labels: str) -> float:
    """The sum of a metric's samples that carry these labels."""
    total = 0.0
    for text in page.decode().splitlines():
        series, _, value = text.rpartition(" ")
        if series.partition("{")[0] == name and all(f'{key}="{want}"' in series for key, want in labels.items()):
            total += float(value)
    return total


async def measured(it: Stand, name: str, **labels: str) -> float:
    """The same, as /metrics says now."""
    return metric((await fetch(it, "/metrics", key=None)).body, name, **labels)


def native(reply: Reply, status: int, **parts: Any) -> dict[str, Any]:
    """Checks that the reply is a native error with these parts; returns the error object."""
    assert reply.status == status, reply.body
    assert reply["content-type"] == "application/json"
    assert reply["x-request-id"].startswith("req_")
    (error,) = reply.json.values()
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"]
    assert {name: error[name] for name in parts} == parts
    return dict(error)


def control(value: str) -> Pair:
    return "cache-control", value


async def words(it: Stand, body: Any, *headers: Pair) -> str:
    """HIT, MISS and so on."""
    return (await ask(it, body, *headers))["x-lamina-cache"]
