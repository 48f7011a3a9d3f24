"""The edge: one route table that no header, path or frame can talk round; CORS; and whose fault an error is."""

import asyncio

import orjson
import pytest

from tests.gateway.http.wire import CHAT, ask, fetch, line, message, native, said
from tests.gateway.stand import KEY, Stand

pytestmark = pytest.mark.asyncio(loop_scope="module")

ORIGIN = ("origin", "https://app.example")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions/x.css",
        "/v1/chat/completions;x",
        "/v1/chat/completions/",
        "/v1//chat/completions",
        "//v1/chat/completions",
        "/v1/chat/../chat/completions",
        "/v1/chat/completions/..%2fcompletions",
        "/v1/chat/completions%00",
        "/V1/chat/completions",
        "/v1/v1/chat/completions",
        "/v1/chat/completions.json",
        "/v1/nothing",
        "/favicon.ico",
        "/v1/responses/resp_1",
    ],
)
async def test_an_odd_path_is_404_and_never_meets_the_cache(it: Stand, prompt: str, path: str) -> None:
    await ask(it, said(prompt))
    native(await ask(it, said(prompt), path=path), 404, type="invalid_request_error")
    native(await fetch(it, path), 404)
    assert len(it.upstream.calls) == 1


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/chat/completions", CHAT + "?beta=true", CHAT + "?a=1&a=2"]
)
async def test_path_forms_and_queries_share_one_entry(it: Stand, prompt: str, path: str) -> None:
    await ask(it, said(prompt))
    assert (await ask(it, said(prompt), path=path))["x-lamina-cache"] == "HIT"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD"])
async def test_another_method_is_405_and_says_which_is_right(it: Stand, method: str) -> None:
    reply = await fetch(it, CHAT, method=method)
    assert reply.status == 405
    assert reply["allow"] == "POST"
    if method != "HEAD":
        native(reply, 405)


async def test_cors_is_on_answers_and_on_errors(it: Stand, prompt: str) -> None:
    replies = [
        await ask(it, said(prompt), ORIGIN),
        await ask(it, said(prompt), ORIGIN),
        await ask(it, said(prompt, stream=True), ORIGIN),
        await ask(it, said(prompt), ORIGIN, key=None),
        await ask(it, b"{", ORIGIN),
        await fetch(it, "/v1/nothing", ORIGIN),
        await fetch(it, CHAT, ORIGIN),
        await fetch(it, "/v1/models", ORIGIN, key=None),
    ]
    assert [reply.status for reply in replies] == [200, 200, 200, 401, 400, 404, 405, 401]
    for reply in replies:
        assert reply["access-control-allow-origin"] == "*"
        exposed = {name.strip().lower() for name in reply["access-control-expose-headers"].split(",")}
        told = {
            name for name, _ in reply.pairs if name.startswith(("x-lamina", "cache-status", "age", "x-request-id"))
        }
        assert told <= exposed
    assert (await ask(it, said(prompt))).get("access-control-allow-origin") is None


@pytest.mark.parametrize("path", [CHAT, "/v1/models", "/v1/models/m", "/anything"])
async def test_a_preflight_needs_no_key(it: Stand, path: str) -> None:
    asked = (
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,x-lamina-user"),
    )
    reply = await fetch(it, path, ORIGIN, *asked, key=None, method="OPTIONS")
    assert reply.status == 204
    assert reply["access-control-allow-origin"] == "*"
    assert "POST" in reply["access-control-allow-methods"]
    assert "Authorization" in reply["access-control-allow-headers"]  # `*` does not cover it
    assert reply.get("content-length") is None  # RFC 9110, section 8.6


@pytest.mark.parametrize("method", ["HEAD", "GET"])
async def test_the_root_says_that_somebody_is_home(it: Stand, method: str) -> None:
    assert (await fetch(it, "/", key=None, method=method)).status == 200


@pytest.mark.parametrize("host", ["x/v1/models?", "x#", "x/healthz", "", "evil.example", "a b", "127.0.0.1:99999"])
async def test_the_host_header_decides_nothing(it: Stand, prompt: str, host: str) -> None:
    raw = orjson.dumps(said(prompt))
    for key, status in ((None, 401), (KEY, 200)):
        bearer = [] if key is None else [("authorization", f"Bearer {key}")]
        headers = [("host", host), ("content-length", str(len(raw))), *bearer]
        async with line(it) as opened:
            await opened.send(message("POST", CHAT, headers, raw))
            assert (await opened.reply()).status == status


@pytest.mark.parametrize(
    "header",
    [
        ("x-forwarded-host", "evil.example"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-http-method-override", "GET"),
        ("x-original-url", "/healthz"),
        ("x-rewrite-url", "/metrics"),
        ("forwarded", "for=127.0.0.1;host=evil"),
        ("x-long", "y" * 20_000),
    ],
    ids=lambda value: value[0],
)
async def test_a_header_that_means_nothing_changes_nothing(
    it: Stand, prompt: str, header: tuple[str, str]
) -> None:
    poisoned = await ask(it, said(prompt), header)
    clean = await ask(it, said(prompt))
    assert (poisoned.status, clean.status) == (200, 200)
    assert clean["x-lamina-cache"] == "HIT"
    assert clean.text == poisoned.text
    assert header[0] not in it.upstream.calls[0].headers


SMUGGLED = (
    "content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\nhost: x\r\n\r\n",
    "content-length: 4\r\ncontent-length: 5\r\n\r\nabcde",
    "content-length: -1\r\n\r\n",
    "content-length: 1e1\r\n\r\n",
    "transfer-encoding: xchunked\r\n\r\n",
    "transfer-encoding: chunked\r\n\r\nZZ\r\n\r\n",
)


@pytest.mark.parametrize("rest", SMUGGLED, ids=range(len(SMUGGLED)))
async def test_an_ambiguous_frame_is_one_refusal_and_a_closed_line(it: Stand, rest: str) -> None:
    async with line(it) as opened:
        start = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
        await opened.send((start + rest).encode())
        async with asyncio.timeout(5):
            answer = await opened.reader.read()
    assert answer.count(b"HTTP/1.1 ") <= 1
    assert answer.startswith(b"HTTP/1.1 400") or not answer
    assert it.upstream.calls == []
