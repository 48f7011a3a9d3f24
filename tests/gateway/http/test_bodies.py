"""Bodies too large, too slow, packed, or packed to burst: refused in time and in little memory."""

import asyncio
import gzip
import time
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import brotli
import orjson
import pytest
import pytest_asyncio
import zstandard

from gateway.settings import LimitSettings
from tests.gateway.http.wire import CHAT, ask, chat_request, line, message, native, said
from tests.gateway.stand import KEY, Stand, stand
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.asyncio(loop_scope="module")

BODY_BYTES = 1 << 20
BOMB_BYTES = 64 << 20
RECEIVE_S = 0.3
MEMORY_BYTES = 24 << 20

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda raw: brotli.compress(raw, quality=5),
    "zstd": zstandard.compress,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gate(tmp_path_factory: pytest.TempPathFactory, gate_redis: RedisServer) -> AsyncIterator[Stand]:
    """A gateway with little room and little patience."""
    limits = LimitSettings(body_bytes=BODY_BYTES, receive_s=RECEIVE_S)
    async with stand(tmp_path_factory.mktemp("tight"), gate_redis, limits=limits) as running:
        yield running


def peak_bytes() -> int:
    """The most memory this process has held since `forget_peak`."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(next(text for text in status.splitlines() if text.startswith("VmHWM")).split()[1]) * 1024


def forget_peak() -> int:
    Path("/proc/self/clear_refs").write_text("5", "ascii")
    return peak_bytes()


def start(*headers: tuple[str, str]) -> bytes:
    """The head of a chat request whose body follows by hand."""
    usual = [("host", "x"), ("authorization", f"Bearer {KEY}"), ("content-type", "application/json")]
    return message("POST", CHAT, [*usual, *headers], b"")


async def test_the_largest_body_allowed_passes(it: Stand, prompt: str) -> None:
    frame = len(orjson.dumps(said(prompt, pad="")))
    body = orjson.dumps(said(prompt, pad="x" * (BODY_BYTES - frame)))
    assert len(body) == BODY_BYTES
    assert (await ask(it, body)).status == 200
    native(await ask(it, body + b" "), 413, code="request_too_large")


async def test_a_declared_length_is_refused_before_any_byte_of_it(it: Stand) -> None:
    async with line(it) as opened:
        await opened.send(start(("content-length", str(BODY_BYTES + 1))))
        native(await opened.reply(), 413, code="request_too_large", type="invalid_request_error")


async def test_a_chunked_body_is_refused_when_it_passes_the_limit(it: Stand) -> None:
    async with line(it) as opened:
        await opened.send(start(("transfer-encoding", "chunked")))
        part = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        for _ in range(BODY_BYTES // 0x10000 + 1):
            await opened.send(part)
        native(await opened.reply(), 413, code="request_too_large")
    assert it.upstream.calls == []


@pytest.mark.parametrize("encoding", PACKERS)
async def test_a_packed_body_says_the_same_as_a_plain_one(it: Stand, prompt: str, encoding: str) -> None:
    plain = await ask(it, said(prompt))
    packed = PACKERS[encoding](orjson.dumps(said(prompt)))
    reply = await ask(it, packed, ("content-encoding", encoding.upper() if encoding == "gzip" else encoding))
    assert reply["x-lamina-cache"] == "HIT"
    assert reply.text == plain.text
    assert reply.get("content-encoding") is None
    assert "content-encoding" not in it.upstream.calls[0].headers


@pytest.mark.parametrize("encoding", PACKERS)
async def test_a_bomb_bursts_in_little_memory(it: Stand, encoding: str) -> None:
    bomb = PACKERS[encoding](b" " * BOMB_BYTES)
    assert len(bomb) < BODY_BYTES
    before = forget_peak()
    began = time.monotonic()
    native(await ask(it, bomb, ("content-encoding", encoding)), 413, code="request_too_large")
    assert time.monotonic() - began < 1
    assert peak_bytes() - before < MEMORY_BYTES


@pytest.mark.parametrize("encoding", PACKERS)
@pytest.mark.parametrize("harm", ["cut", "noise", "empty"])
async def test_a_corrupt_packed_body_is_400(it: Stand, prompt: str, encoding: str, harm: str) -> None:
    packed = PACKERS[encoding](orjson.dumps(said(prompt)))
    harmed = {"cut": packed[:-5], "noise": b"\x07" * 100, "empty": b""}[harm]
    native(await ask(it, harmed, ("content-encoding", encoding)), 400)
    assert it.upstream.calls == []


@pytest.mark.parametrize("encoding", ["compress", "gzip, br", "x" * 500])
async def test_an_unknown_encoding_is_415(it: Stand, prompt: str, encoding: str) -> None:
    error = native(await ask(it, said(prompt), ("content-encoding", encoding)), 415, type="invalid_request_error")
    assert "gzip" in error["message"]
    assert len(error["message"]) < 200


async def test_identity_is_no_encoding(it: Stand, prompt: str) -> None:
    assert (await ask(it, said(prompt), ("content-encoding", "identity"))).status == 200


async def test_a_body_that_does_not_come_is_408_and_the_line_is_closed(it: Stand, prompt: str) -> None:
    raw = chat_request(said(prompt))
    async with line(it) as opened:
        began = time.monotonic()
        await opened.send(raw[:-10])
        native(await opened.reply(), 408, code="timeout")
        assert RECEIVE_S <= time.monotonic() - began < RECEIVE_S + 1
        async with asyncio.timeout(1):
            assert await opened.reader.read() == b""
    assert it.upstream.calls == []


async def test_a_body_that_drips_is_408(it: Stand, prompt: str) -> None:
    raw = chat_request(said(prompt))
    cut = raw.index(b"\r\n\r\n") + 4
    async with line(it) as opened:
        began = time.monotonic()
        await opened.send(raw[:cut])
        for at in range(cut, cut + 4):
            await opened.send(raw[at : at + 1])
            await asyncio.sleep(RECEIVE_S / 6)
        native(await opened.reply(), 408)
        assert time.monotonic() - began < RECEIVE_S * 1.5


async def test_after_a_413_the_line_serves_the_next_request(it: Stand, prompt: str) -> None:
    async with line(it) as opened:
        await opened.send(start(("content-length", str(BODY_BYTES + 1))))
        assert (await opened.reply()).status == 413
        await opened.send(b" " * (BODY_BYTES + 1))
        await opened.send(chat_request(said(prompt)))
        assert (await opened.reply()).status == 200


@pytest.mark.parametrize("key", [None, "lam_wrong"])
async def test_a_strangers_body_is_neither_awaited_nor_unpacked_nor_parsed(it: Stand, key: str | None) -> None:
    bearer = () if key is None else (("authorization", f"Bearer {key}"),)
    bodies = {
        "bomb": (gzip.compress(b"[" * BOMB_BYTES), ("content-encoding", "gzip")),
        "no JSON": (b"{", ("x", "y")),
        "unknown encoding": (b"x", ("content-encoding", "rot13")),
    }
    for raw, header in bodies.values():
        native(await ask(it, raw, header, *bearer, key=None), 401, code="invalid_api_key")
    async with line(it) as opened:
        began = time.monotonic()
        length = ("content-length", str(BODY_BYTES))
        await opened.send(message("POST", CHAT, [("host", "x"), length, *bearer], b""))
        native(await opened.reply(), 401)
        assert time.monotonic() - began < RECEIVE_S
        await opened.send(b" " * BODY_BYTES)
        await opened.send(chat_request(said("after a stranger")))
        assert (await opened.reply()).status == 200
