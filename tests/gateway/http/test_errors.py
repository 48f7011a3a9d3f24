"""Every error is OpenAI's own object with the right status, whatever was wrong; none of it is ever stored."""

from pathlib import Path
from typing import Any

import openai
import orjson
import pytest

from tests.gateway.http.wire import CHAT, ask, chat_request, line, measured, message, native, said
from tests.gateway.stand import KEY, Stand, stand
from tests.servers.redis import RedisServer
from tests.upstream import Script

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    "credential",
    [
        None,
        "Bearer",
        "Bearer ",
        "Bearer lam_wrong",
        f"Basic {KEY}",
        KEY,
        f"Bearer {KEY}x",
        f"Bearer {KEY[:-1]}",
        f"Bearer {KEY} {KEY}",
        f"Bearer {KEY.upper()}",
        "Bearer ' OR 1=1 --",
        'Bearer " UNION SELECT digest FROM api_keys --',
        "Bearer \xff\xfe",
        "Bearer " + "x" * (1 << 20),
    ],
    ids=lambda value: repr(value)[:24],
)
async def test_a_missing_wrong_or_malformed_key_is_401(it: Stand, prompt: str, credential: str | None) -> None:
    await ask(it, said(prompt))
    headers = [] if credential is None else [("authorization", credential)]
    for path, method in ((CHAT, "POST"), ("/v1/models", "GET")):
        raw = orjson.dumps(said(prompt)) if method == "POST" else b""
        async with line(it) as opened:
            usual = [("host", "lamina"), ("content-length", str(len(raw)))]
            await opened.send(message(method, path, [*usual, *headers], raw))
            reply = await opened.reply()
        native(reply, 401, code="invalid_api_key", type="invalid_request_error")
        assert reply["www-authenticate"] == "Bearer"
        assert reply.get("cache-status") is None
    assert len(it.upstream.calls) == 1


async def test_a_nul_in_a_key_is_refused(it: Stand, prompt: str) -> None:
    async with line(it) as opened:
        await opened.send(chat_request(said(prompt), key=f"{KEY}\0"))
        assert (await opened.head()).status in (400, 401)
    assert it.upstream.calls == []


async def test_bearer_is_spelled_in_any_case(it: Stand, prompt: str) -> None:
    assert (await ask(it, said(prompt), ("Authorization", f"bEARER  {KEY}"), key=None)).status == 200


async def test_the_sdk_raises_its_own_classes(it: Stand, sdk: openai.AsyncOpenAI, prompt: str) -> None:
    async with it.client("lam_wrong") as stranger:
        with pytest.raises(openai.AuthenticationError) as refused:
            await stranger.chat.completions.create(**said(prompt))
    assert refused.value.code == "invalid_api_key"
    assert refused.value.request_id
    with pytest.raises(openai.NotFoundError) as unknown:
        await sdk.chat.completions.create(**said(prompt) | {"model": "gpt-99"})
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as bad:
        await sdk.chat.completions.create(**said(prompt, n=0))
    assert bad.value.param == "n"


BAD_BODIES = {
    "no JSON": b"{",
    "empty": b"",
    "not UTF-8": b'{"model": "m", "messages": [{"role": "user", "content": "\xff"}]}',
    "byte order mark": b"\xef\xbb\xbf" + orjson.dumps(said("x")),
    "NUL after": orjson.dumps(said("x")) + b"\0",
    "two values": orjson.dumps(said("x")) * 2,
    "duplicate key": b'{"model": "m", "model": "alias", "messages": [{"role": "user", "content": "x"}]}',
    "duplicate key, escaped": b'{"model": "m", "mod\\u0065l": "m", "messages": [{"role": "user"}]}',
    "duplicate key, deep": b'{"model": "m", "messages": [{"role": "user", "content": "x", "content": "y"}]}',
    "NaN": b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "top_p": NaN}',
    "infinity": b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "top_p": -Infinity}',
    "overflow": b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "top_p": 1e400}',
    "big integer": b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "seed": 9007199254740993}',
    "huge integer": b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "seed": '
    + b"9" * 5000
    + b"}",
    "lone surrogate": b'{"model": "m", "messages": [{"role": "user", "content": "\\ud800"}]}',
    "lone surrogate in a key": b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "\\udc00": 1}',
    "deep": b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "x": ' + b"[" * 65 + b"]" * 65 + b"}",
    "very deep": b"[" * 100_000,
}


@pytest.mark.parametrize("raw", BAD_BODIES.values(), ids=BAD_BODIES)
async def test_a_body_that_is_not_strict_json_is_400(it: Stand, raw: bytes) -> None:
    native(await ask(it, raw), 400, code="invalid_json", type="invalid_request_error")
    assert it.upstream.calls == []


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ([], None),
        ("text", None),
        (None, None),
        ({"messages": [{"role": "user"}]}, "model"),
        ({"model": "", "messages": [{"role": "user"}]}, "model"),
        ({"model": ["m"], "messages": [{"role": "user"}]}, "model"),
        ({"model": "m" * 1025, "messages": [{"role": "user"}]}, "model"),
        ({"model": "m"}, "messages"),
        ({"model": "m", "messages": []}, "messages"),
        ({"model": "m", "messages": {"role": "user"}}, "messages"),
        ({"model": "m", "messages": [{"role": "user"}, "x"]}, "messages[1]"),
        ({"model": "m", "messages": [{"content": "x"}]}, "messages[0]"),
        (said("x", stream="true"), "stream"),
        (said("x", stream=1), "stream"),
        (said("x", stream=True, stream_options=[]), "stream_options"),
        (said("x", n=0), "n"),
        (said("x", n=129), "n"),
        (said("x", n=True), "n"),
        (said("x", n=1.0), "n"),
        (said("x", api_base="http://127.0.0.1:1/v1"), "api_base"),
        (said("x", base_url="http://169.254.169.254/"), "base_url"),
        (said("x", endpoint="http://127.0.0.1"), "endpoint"),
        (said("x", api_key="sk-x"), "api_key"),
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_a_request_out_of_shape_is_400_and_names_the_field(it: Stand, body: Any, param: str | None) -> None:
    native(await ask(it, body), 400, type="invalid_request_error", param=param)
    assert it.upstream.calls == []


async def test_only_if_cached_without_an_entry_is_504_that_no_sdk_retries(it: Stand, prompt: str) -> None:
    reply = await ask(it, said(prompt), ("cache-control", "only-if-cached"))
    native(reply, 504, code="only_if_cached", type="timeout")
    assert reply["x-should-retry"] == "false"
    async with it.client().with_options(max_retries=2) as patient:
        with pytest.raises(openai.InternalServerError) as caught:
            await patient.chat.completions.create(
                **said(prompt), extra_headers={"Cache-Control": "only-if-cached"}
            )
    assert caught.value.status_code == 504
    assert caught.value.response.request.headers["x-stainless-retry-count"] == "0"
    assert it.upstream.calls == []


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    "kind",
    [openai.BadRequestError, openai.ConflictError, openai.NotFoundError, openai.RateLimitError],
)
async def test_an_upstream_error_is_relayed_and_not_stored(
    it: Stand, sdk: openai.AsyncOpenAI, prompt: str, kind: type[openai.APIStatusError], stream: bool
) -> None:
    error = {"message": "Slow down.", "type": "requests", "param": None, "code": "upstream_code"}
    status = kind.status_code
    relayed = {"retry-after": "7", "x-ratelimit-remaining-requests": "0", "set-cookie": "a=b", "server": "secret"}
    it.upstream.enqueue(Script(status=status, body={"error": error}, headers=relayed))
    with pytest.raises(kind) as caught:
        await sdk.chat.completions.create(**said(prompt), stream=stream)
    assert caught.value.body == error
    headers = caught.value.response.headers
    assert headers["retry-after"] == "7"
    assert headers["x-ratelimit-remaining-requests"] == "0"
    assert headers["x-request-id"].startswith("req_")
    assert "set-cookie" not in headers
    assert headers.get("server") != "secret"
    again = await sdk.chat.completions.with_raw_response.create(**said(prompt))
    assert again.headers["x-lamina-cache"] == "MISS"
    assert len(it.upstream.calls) == 2


QUOTED = {"message": "Incorrect API key provided: sk-operator", "type": "x", "code": "invalid_api_key"}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("status", [401, 403])
async def test_refused_credentials_of_the_operator_are_no_word_on_the_clients_key(
    it: Stand, prompt: str, status: int, *, stream: bool
) -> None:
    counted = {"name": "lamina_faults_total", "part": "provider", "reason": "credentials"}
    before = await measured(it, **counted)
    it.upstream.enqueue(Script(status=status, body={"error": QUOTED}))
    async with it.client().with_options(max_retries=2) as patient:
        with pytest.raises(openai.InternalServerError) as caught:
            await patient.chat.completions.create(**said(prompt), stream=stream)
    assert (caught.value.status_code, caught.value.code) == (502, "provider_credentials")
    assert "sk-operator" not in caught.value.response.text
    assert len(it.upstream.calls) == 1, "no SDK asks again"
    assert await measured(it, **counted) == before + 1
    assert (await ask(it, said(prompt)))["x-lamina-cache"] == "MISS"


async def test_the_log_names_the_provider_that_refused_and_no_key(
    tmp_path: Path, redis_server: RedisServer, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    async with stand(tmp_path, redis_server) as alone:
        alone.upstream.enqueue(Script(status=401, body={"error": QUOTED}))
        await ask(alone, said("who?"))
    out = capfdbinary.readouterr().out
    told = next(event for event in map(orjson.loads, out.splitlines()) if event["event"] == "provider_fault")
    assert (told["provider"], told["reason"], told["level"]) == ("up", "credentials", "error")
    assert told["error"].startswith("the provider answered 401: check its api_key or headers")
    assert b"sk-operator" not in out


async def test_refused_credentials_make_the_next_model_answer(it: Stand, prompt: str) -> None:
    it.upstream.enqueue(Script(status=401, body={"error": QUOTED}))
    reply = await ask(it, said(prompt) | {"model": "first"})
    assert (reply.status, len(it.upstream.calls)) == (200, 2)


@pytest.mark.parametrize(
    "script",
    [
        Script(body=b"<html>"),
        Script(body={"choices": []}),
        Script(cut_after=10),
        Script(status=302),
    ],
    ids=["no JSON", "no choices", "cut", "redirect"],
)
async def test_an_upstream_that_fails_is_a_native_502(it: Stand, prompt: str, script: Script) -> None:
    it.upstream.enqueue(script)
    native(await ask(it, said(prompt)), 502, type="server_error")
    assert (await ask(it, said(prompt)))["x-lamina-cache"] == "MISS"
