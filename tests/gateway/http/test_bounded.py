"""Heads, chunk lines and trailers are bounded in size and in time; what is no HTTP gets a native error."""

import asyncio
import contextlib
import socket
import time

import orjson
import pytest

from gateway import bounded
from tests.gateway.http.wire import CHAT, Line, Reply, ask, chat_request, fetch, line, message, said
from tests.gateway.stand import KEY, Stand
from tests.upstream import Script

pytestmark = pytest.mark.asyncio(loop_scope="module")

GET = b"GET /healthz HTTP/1.1\r\nhost: x\r\n"
WITHIN_S = 0.2


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little time for a head."""
    monkeypatch.setattr(bounded, "UNFRAMED_WITHIN_S", WITHIN_S)


async def pour(opened: Line, part: bytes) -> None:
    """Sends the same part until the other side has had enough."""
    for _ in range(2 * bounded.MAX_UNFRAMED_BYTES // len(part) + 1):
        opened.writer.write(part)
        try:
            await opened.writer.drain()
        except ConnectionError:
            return


async def refused(opened: Line, status: int) -> None:
    """A native error, then the end of the line."""
    reply = await opened.reply()
    assert reply.status == status
    assert reply["content-type"] == "application/json"
    assert reply.json["error"].keys() == {"message", "type", "param", "code"}
    assert reply["connection"] == "close"
    async with asyncio.timeout(2):
        assert await opened.reader.read() == b""


@pytest.mark.parametrize("part", [b"y" * 65536, b"h: y\r\n" * 10_000], ids=["one header", "many headers"])
async def test_an_endless_head_is_431_in_little_time(it: Stand, part: bytes) -> None:
    async with line(it) as opened:
        began = time.monotonic()
        await opened.send(GET + b"x-long: ")
        pouring = asyncio.create_task(pour(opened, part))
        head = await opened.head()
        assert head.status == 431
        assert time.monotonic() - began < 2
        await pouring


async def test_an_endless_target_is_431(it: Stand) -> None:
    async with line(it) as opened:
        await opened.send(b"GET /")
        pouring = asyncio.create_task(pour(opened, b"y" * 65536))
        assert (await opened.head()).status == 431
        await pouring


@pytest.mark.parametrize("tail", [b"1;", b"0\r\nx: "], ids=["chunk line", "trailer"])
async def test_an_endless_chunk_line_or_trailer_ends_the_line(it: Stand, tail: bytes) -> None:
    async with line(it) as opened:
        headers = [("host", "x"), ("authorization", f"Bearer {KEY}"), ("transfer-encoding", "chunked")]
        await opened.send(message("POST", CHAT, headers, tail))
        began = time.monotonic()
        await pour(opened, b"y" * 65536)
        assert time.monotonic() - began < 2
        async with asyncio.timeout(2):
            with contextlib.suppress(ConnectionError):
                await opened.reader.read()
    assert (await fetch(it, "/healthz", key=None)).status == 200
    assert it.upstream.calls == []


@pytest.mark.parametrize(
    "start", [b"G", GET, GET + b"x: ", b"\r\n"], ids=["a letter", "a line", "a name", "nothing"]
)
@pytest.mark.usefixtures("hasty")
async def test_a_head_that_does_not_end_is_408(it: Stand, start: bytes) -> None:
    async with line(it) as opened:
        began = time.monotonic()
        await opened.send(start)
        await refused(opened, 408)
        assert WITHIN_S <= time.monotonic() - began + 0.01 < WITHIN_S + 1


@pytest.mark.usefixtures("hasty")
async def test_a_head_that_drips_is_408(it: Stand) -> None:
    async with line(it) as opened:
        for at in range(4):
            await opened.send(GET[at : at + 1])
            await asyncio.sleep(WITHIN_S / 5)
        await refused(opened, 408)


@pytest.mark.slow
@pytest.mark.usefixtures("hasty")
async def test_whoever_sends_a_head_in_time_keeps_the_line(it: Stand, prompt: str) -> None:
    raw = chat_request(said(prompt))
    cut = raw.index(b"\r\n\r\n")
    async with line(it) as opened:
        for _ in range(2):
            await opened.send(raw[: cut // 2])
            await asyncio.sleep(WITHIN_S / 3)
            await opened.send(raw[cut // 2 : cut + 10])
            await asyncio.sleep(WITHIN_S * 1.2)  # a body has a time of its own
            await opened.send(raw[cut + 10 :])
            assert (await opened.reply()).status == 200
            await asyncio.sleep(WITHIN_S * 1.2)  # and so has silence between requests


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_an_answer_that_nobody_takes_is_given_up(
    it: Stand, prompt: str, monkeypatch: pytest.MonkeyPatch, *, stream: bool
) -> None:
    monkeypatch.setattr(bounded, "UNREAD_WITHIN_S", WITHIN_S)
    it.upstream.enqueue(Script(pieces=("x" * (1 << 20),) * 16))
    host, _, port = it.url.removeprefix("http://").partition(":")
    taken = 0
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(deaf, (host, int(port)))
        await loop.sock_sendall(deaf, chat_request(said(prompt, stream=stream)))
        await asyncio.sleep(1)
        async with asyncio.timeout(5):
            with contextlib.suppress(ConnectionError):
                while part := await loop.sock_recv(deaf, 1 << 20):
                    taken += len(part)
    assert 0 < taken < 16 << 20


@pytest.mark.slow
async def test_a_client_that_catches_up_in_time_gets_all(
    it: Stand, prompt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "UNREAD_WITHIN_S", 1.0)
    text = "x" * (16 << 20)
    it.upstream.enqueue(Script(pieces=(text,)))
    async with line(it) as opened:
        await opened.send(chat_request(said(prompt)))
        await asyncio.sleep(0.3)
        assert (await opened.reply()).text == text
        await asyncio.sleep(1.1)
        await opened.send(chat_request(said(prompt)))
        assert (await opened.reply()).status == 200


@pytest.mark.parametrize(
    "raw", [b"\x16\x03\x01\x02\x00", b"NOT HTTP\r\n\r\n", b"GET /v1/models/\xe9 HTTP/1.1\r\n\r\n"]
)
async def test_what_is_no_http_is_a_native_400(it: Stand, raw: bytes) -> None:
    async with line(it) as opened:
        await opened.send(raw)
        await refused(opened, 400)


async def test_a_large_head_within_bounds_is_read(it: Stand, prompt: str) -> None:
    assert (await ask(it, said(prompt), ("x-long", "y" * (1 << 20)))).status == 200


async def test_a_body_in_the_smallest_chunks_is_read(it: Stand, prompt: str) -> None:
    raw = orjson.dumps(said(prompt))
    chunks = b"".join(b"1;x=y\r\n%c\r\n" % byte for byte in raw) + b"0\r\nx-trailer: y\r\n\r\n"
    headers = [("host", "x"), ("authorization", f"Bearer {KEY}"), ("transfer-encoding", "chunked")]
    async with line(it) as opened:
        await opened.send(message("POST", CHAT, headers, chunks))
        reply: Reply = await opened.reply()
    assert reply.status == 200
    assert (await ask(it, said(prompt)))["x-lamina-cache"] == "HIT"
