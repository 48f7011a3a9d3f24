import asyncio
import gzip

import orjson
import pytest

from gateway.errors import SettingsError, UpstreamError
from gateway.providers import load_provider, streams
from gateway.providers.contract import Provider, ProviderCall
from gateway.settings import ProviderSettings
from tests.upstream import Script, Upstream

_ANSWER = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]}


async def test_credentials_and_headers(upstream: Upstream, call: ProviderCall) -> None:
    settings = ProviderSettings(
        base_url=upstream.base_url + "/?api-version=7", api_key="sk-1", headers={"OpenAI-Project": "p"}
    )
    provider = load_provider("openai").from_settings("up", settings)
    await provider.complete(call)
    await provider.close()
    sent = upstream.calls[0]
    assert sent.path == "/v1/chat/completions?api-version=7"
    assert sent.headers["authorization"] == "Bearer sk-1"
    assert sent.headers["openai-project"] == "p"
    assert "cookie" not in sent.headers


@pytest.mark.parametrize("base_url", ["http://", "http:///v1", "https://host:99999999/v1"])
def test_an_address_that_is_none(base_url: str) -> None:
    with pytest.raises(SettingsError, match="'up'"):
        load_provider("openai").from_settings("up", ProviderSettings(base_url=base_url))


async def test_only_headers_of_the_list_are_relayed(
    provider: Provider, upstream: Upstream, call: ProviderCall
) -> None:
    headers = {
        "Retry-After-Ms": "5",
        "X-Should-Retry": "false",
        "X-RateLimit-Remaining-Tokens": "9",
        "OpenAI-Processing-Ms": "3",
        "OpenAI-Version": "2020-10-01",
        "OpenAI-Organization": "org",
        "Set-Cookie": "a=b",
        "X-Request-Id": "theirs",
        "Server": "s",
    }
    relayed = {k.lower(): v for k, v in headers.items() if k not in {"Set-Cookie", "X-Request-Id", "Server"}}
    upstream.enqueue(Script(headers=headers), Script(headers=headers))
    assert (await provider.complete(call)).headers == relayed
    stream = await provider.stream(call)
    assert stream.headers == relayed
    await stream.close()
    await provider.complete(call)
    assert all("cookie" not in sent.headers for sent in upstream.calls)


UNWELCOME = "The model provider refused the gateway's credentials. Your own key is fine; tell the operator."
FLAGGED = {"reasons": ["violence"], "flagged_input": "…"}


@pytest.mark.parametrize(
    ("script", "seen"),
    [
        (
            Script(status=400, body={"error": {"message": "long", "code": "context_length_exceeded"}}),
            (400, "long"),
        ),
        (Script(status=404, body={"error": "no such model"}), (404, "no such model")),
        (Script(status=422, body={"object": "error", "message": "bad", "type": "x"}), (422, "bad")),
        (
            Script(status=500, body=b"<html>at http://10.0.0.7/"),
            (500, "The model provider answered with status 500."),
        ),
        (Script(status=529, body={"error": {"message": "busy"}}), (503, "busy")),
        (Script(status=503, body={"detail": "x"}), (503, "The model provider answered with status 503.")),
        (Script(status=401, body={"error": {"message": "Incorrect API key: sk-op***"}}), (502, UNWELCOME)),
        (Script(status=403, body={"error": {"message": "Project proj_1 has no access"}}), (502, UNWELCOME)),
        (Script(status=403, body=b"<html>blocked"), (502, UNWELCOME)),
        (Script(body={"error": {"message": "User not found: sk-op***", "code": 401}}), (502, UNWELCOME)),
        (Script(status=403, body={"error": {"message": "flagged", "metadata": FLAGGED}}), (403, "flagged")),
    ],
)
async def test_refusals_in_the_native_shape(
    provider: Provider, upstream: Upstream, call: ProviderCall, script: Script, seen: tuple[int, str]
) -> None:
    upstream.enqueue(script)
    with pytest.raises(UpstreamError) as caught:
        await provider.complete(call)
    assert (caught.value.status, caught.value.body["error"]["message"]) == seen
    assert {"message", "type", "param", "code"} <= set(caught.value.body["error"])


@pytest.mark.parametrize("way", ["status", "in_200", "mid_stream"])
async def test_keys_and_addresses_are_redacted(
    provider: Provider, upstream: Upstream, call: ProviderCall, way: str
) -> None:
    address = upstream.base_url.removeprefix("http://").removesuffix("/v1")
    error = {"message": f"sk-operator-secret is bad at http://{address}/v1", "code": address}
    scripts = {
        "status": Script(status=404, body={"error": error}),
        "in_200": Script(body={"error": error}),
        "mid_stream": Script(error_after=0, error=error),
    }
    upstream.enqueue(scripts[way])
    with pytest.raises(UpstreamError) as caught:
        await (provider.stream(call) if way == "mid_stream" else provider.complete(call))
    assert "[redacted]" in str(caught.value.body)
    for secret in ("sk-operator-secret", address):
        assert secret not in str(caught.value.body)


async def test_a_stale_connection_is_replaced_once(
    provider: Provider, upstream: Upstream, call: ProviderCall
) -> None:
    await provider.complete(call)
    upstream.enqueue(Script(drop=True))
    completed = await provider.complete(call)
    assert completed.response.choices[0].message["content"] == "Hello from upstream"
    assert upstream.count == 3


async def test_a_second_drop_is_not_retried(provider: Provider, upstream: Upstream, call: ProviderCall) -> None:
    await provider.complete(call)
    upstream.enqueue(Script(drop=True), Script(drop=True))
    with pytest.raises(UpstreamError, match="cut"):
        await provider.complete(call)
    assert upstream.count == 3


async def test_a_drop_after_the_first_byte_is_not_retried(
    provider: Provider, upstream: Upstream, call: ProviderCall
) -> None:
    await provider.complete(call)
    upstream.enqueue(Script(cut_after=5))
    with pytest.raises(UpstreamError, match="cut"):
        await provider.complete(call)
    assert upstream.count == 2


@pytest.mark.slow
async def test_a_drop_after_a_while_is_not_a_stale_connection(
    provider: Provider, upstream: Upstream, call: ProviderCall
) -> None:
    await provider.complete(call)
    upstream.enqueue(Script(delay_s=1.05, drop=True))
    with pytest.raises(UpstreamError, match="cut"):
        await provider.complete(call)
    assert upstream.count == 2


async def test_idle_connections_that_the_upstream_closed(
    provider: Provider, upstream: Upstream, call: ProviderCall
) -> None:
    for _ in range(20):
        await asyncio.gather(provider.complete(call), provider.complete(call))
        upstream.drop_idle()
    assert upstream.disconnects == 0


async def test_no_connection_free_in_time(upstream: Upstream, call: ProviderCall) -> None:
    settings = ProviderSettings(base_url=upstream.base_url, max_connections=1, connect_timeout_s=0.05)
    provider = load_provider("openai").from_settings("up", settings)
    upstream.enqueue(Script(hang_after=1))
    stream = await provider.stream(call)
    with pytest.raises(UpstreamError) as caught:
        await provider.complete(call)
    assert (caught.value.reason, caught.value.status) == ("connect", 504)
    await stream.close()
    await provider.complete(call)
    await provider.close()


async def test_a_slow_drip_is_no_timeout(upstream: Upstream, call: ProviderCall) -> None:
    settings = ProviderSettings(base_url=upstream.base_url, read_timeout_s=0.2)
    provider = load_provider("openai").from_settings("up", settings)
    upstream.enqueue(Script(pieces=("a",) * 8, piece_delay_s=0.05))
    chunks = [chunk async for chunk in await provider.stream(call)]
    assert len(chunks) == 11
    await provider.close()


async def test_packed_answers_are_unpacked(provider: Provider, upstream: Upstream, call: ProviderCall) -> None:
    upstream.enqueue(Script(body=gzip.compress(orjson.dumps(_ANSWER)), headers={"content-encoding": "gzip"}))
    assert (await provider.complete(call)).response.choices[0].message["content"] == "hi"
    upstream.enqueue(Script(body=b"not gzip", headers={"content-encoding": "gzip"}))
    with pytest.raises(UpstreamError):
        await provider.complete(call)


async def test_a_large_body_arrives_whole(provider: Provider, upstream: Upstream) -> None:
    image = "x" * (3 << 20)
    await provider.complete(ProviderCall("m", {"messages": [{"role": "user", "content": image}]}, "r"))
    assert upstream.calls[0].body["messages"][0]["content"] == image


async def test_events_in_one_read_and_characters_in_two(
    provider: Provider, upstream: Upstream, call: ProviderCall
) -> None:
    chunk = orjson.dumps({"choices": [{"index": 0, "delta": {"content": "🎈"}}]})
    event = b"data:" + chunk + b"\r\n\r\n"
    cut = event.index("🎈".encode()) + 2
    upstream.enqueue(Script(events=[b": hi\n\ndata:\n\n" + event + event[:cut], event[cut:]], piece_delay_s=0.01))
    chunks = [part async for part in await provider.stream(call)]
    assert [part["choices"][0]["delta"]["content"] for part in chunks] == ["🎈", "🎈"]


async def test_done_ends_the_stream_though_the_upstream_stays(
    provider: Provider, upstream: Upstream, call: ProviderCall
) -> None:
    upstream.enqueue(Script(events=[{"choices": []}, b"data: [DONE]\n\n"], hang_after=2))
    stream = await provider.stream(call)
    async with asyncio.timeout(0.2):
        assert len([chunk async for chunk in stream]) == 1
    await stream.close()
    await upstream.until(disconnects=1)


async def test_done_without_its_blank_line_is_an_end(
    provider: Provider, upstream: Upstream, call: ProviderCall
) -> None:
    upstream.enqueue(Script(events=[{"choices": []}, b"data: [DONE]\n"], done=False))
    assert len([chunk async for chunk in await provider.stream(call)]) == 1


async def test_a_stream_without_end_is_given_up(
    provider: Provider, upstream: Upstream, call: ProviderCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_STREAM_BYTES", 10_000)
    upstream.enqueue(Script(pieces=("x" * 1000,) * 100, piece_delay_s=0.001))
    stream, chunks = await provider.stream(call), list[object]()

    async def take() -> None:
        async for chunk in stream:
            chunks.append(chunk)

    with pytest.raises(UpstreamError) as caught:
        await take()
    assert caught.value.reason == "protocol"
    assert 1 <= len(chunks) <= 10
    await stream.close()
    await upstream.until(disconnects=1)
