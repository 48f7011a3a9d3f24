"""What gateway/providers/contract.py promises, for each kind in the table, over TCP and a Unix socket."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import SettingsError, UpstreamError
from gateway.protocols.assemble import Assembler
from gateway.providers import PROVIDERS, load_provider, open_provider
from gateway.providers.contract import ChunkStream, Provider, ProviderCall
from gateway.settings import ProviderSettings
from policies.types import ChatResponse
from tests.upstream import USAGE, Script, Upstream

pytestmark = pytest.mark.parametrize(("kind", "over_unix"), [(k, u) for k in PROVIDERS for u in (False, True)])

_CALLS = [
    {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"x":1}'}},
    {"id": "call_2", "type": "function", "function": {"name": "find", "arguments": "{}"}},
]
_ANSWERS = [
    Script(),
    Script(n=3),
    Script(pieces=None, tool_calls=_CALLS, finish_reason="tool_calls"),
    Script(finish_reason="length", usage=None, extra={"system_fingerprint": "fp_1"}),
    Script(pieces=("é", "🎈漢", ""), n=2),
]


@pytest.fixture
async def upstream(over_unix: bool, tmp_path: Path) -> AsyncIterator[Upstream]:
    async with Upstream(path=tmp_path / "up.sock" if over_unix else None) as server:
        yield server


@pytest.fixture
async def provider(kind: str, upstream: Upstream) -> AsyncIterator[Provider]:
    settings = ProviderSettings(kind=kind, base_url=upstream.base_url, read_timeout_s=0.25)
    opened = load_provider(kind).from_settings("up", settings)
    yield opened
    await opened.close()


async def _read(stream: ChunkStream) -> list[dict[str, Any]]:
    chunks = [chunk async for chunk in stream]
    await stream.close()
    return chunks


async def _collect(stream: ChunkStream, into: list[dict[str, Any]]) -> None:
    async for chunk in stream:
        into.append(chunk)  # noqa: PERF401  (what came before the error counts)


async def _streamed(provider: Provider, call: ProviderCall) -> ChatResponse:
    assembler = Assembler()
    for chunk in await _read(await provider.stream(call)):
        assembler.add(chunk)
    return assembler.finish()


@pytest.mark.parametrize("script", _ANSWERS)
async def test_streamed_or_whole_it_is_the_same_answer(
    provider: Provider, upstream: Upstream, call: ProviderCall, script: Script
) -> None:
    upstream.enqueue(script, script)
    whole = (await provider.complete(call)).response
    streamed = await _streamed(provider, call)
    assert [c.message for c in streamed.choices] == [c.message for c in whole.choices]
    assert [c.finish_reason for c in streamed.choices] == [script.finish_reason] * script.n
    assert (streamed.usage, streamed.extra) == (whole.usage, whole.extra) == (script.usage, script.extra)
    assert (whole.id, whole.created, whole.model) == ("chatcmpl-up", 1700000000, "m-up")


async def test_what_is_sent(provider: Provider, upstream: Upstream, call: ProviderCall, kind: str) -> None:
    await provider.complete(call)
    await _read(await provider.stream(call))
    salt = {"cache_salt": "salt-1"} if kind == "engine" else {}
    whole, streamed = (sent.body for sent in upstream.calls)
    assert whole == {**call.body, **salt, "model": "m-up", "stream": False}
    early = {"include_prompt_usage": True} if kind == "engine" else {}
    streaming = {"stream": True, "stream_options": {"include_usage": True, **early}}
    assert streamed == {**call.body, **salt, "model": "m-up", **streaming}
    for sent in upstream.calls:
        assert (sent.method, sent.path) == ("POST", "/v1/chat/completions")
        assert sent.headers["x-request-id"] == "req-1"
        assert sent.headers["traceparent"] == "00-1-2-01"
        assert "authorization" not in sent.headers
    assert call.body == {"messages": [{"role": "user", "content": "hi"}], "temperature": 0}


async def test_connections_are_kept(provider: Provider, upstream: Upstream, call: ProviderCall) -> None:
    for _ in range(3):
        await provider.complete(call)
        await _read(await provider.stream(call))
    assert upstream.connections == 1
    assert upstream.disconnects == 0


async def test_the_usage_chunk_comes_last_and_done_does_not(
    provider: Provider, upstream: Upstream, call: ProviderCall
) -> None:
    chunks = await _read(await provider.stream(call))
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == USAGE


@pytest.mark.parametrize("way", ["complete", "stream"])
async def test_a_refusal_is_relayed(provider: Provider, upstream: Upstream, call: ProviderCall, way: str) -> None:
    error = {"message": "slow down", "type": "requests", "param": None, "code": "rate_limit_exceeded"}
    upstream.enqueue(Script(status=429, body={"error": error}, headers={"Retry-After": "7", "Set-Cookie": "a=b"}))
    with pytest.raises(UpstreamError) as caught:
        await getattr(provider, way)(call)
    assert (caught.value.reason, caught.value.status) == ("status", 429)
    assert caught.value.body == {"error": error}
    assert caught.value.headers == {"retry-after": "7"}


@pytest.mark.parametrize(
    ("script", "seen"),
    [
        (Script(drop=True), ("cut", 502)),
        (Script(hang_after=0), ("timeout", 504)),
        (Script(body=b"{"), ("protocol", 502)),
        (Script(body=b"\xff"), ("protocol", 502)),
        (Script(body={"choices": []}), ("protocol", 502)),
        (Script(body={"error": {"message": "no", "type": "server_error"}}), ("status", 502)),
        (Script(body=b"<p>hi", content_type="text/html"), ("protocol", 502)),
        (Script(status=302, body=b"", headers={"location": "http://127.0.0.1:9/"}), ("protocol", 502)),
    ],
)
async def test_a_failure_before_the_answer(
    provider: Provider, upstream: Upstream, call: ProviderCall, script: Script, seen: tuple[str, int]
) -> None:
    upstream.enqueue(script, script)
    for way in (provider.complete, provider.stream):
        with pytest.raises(UpstreamError) as caught:
            await way(call)
        assert (caught.value.reason, caught.value.status) == seen
        assert set(caught.value.body["error"]) == {"message", "type", "param", "code"}
    assert upstream.count == 2


@pytest.mark.parametrize(
    ("script", "seen"),
    [
        (Script(cut_after=2), ("cut", 502, 2)),
        (Script(done=False), ("cut", 502, 7)),
        (Script(hang_after=3), ("timeout", 504, 3)),
        (Script(error_after=2), ("status", 502, 2)),
        (Script(events=[{"choices": []}, b"data: {oops\n\n"]), ("protocol", 502, 1)),
        (Script(events=[{"choices": []}, b"data: [1]\n\n"]), ("protocol", 502, 1)),
        (Script(events=[{"choices": []}, b'data: {"id":1}\n\n']), ("protocol", 502, 1)),
        (Script(events=[{"choices": []}, b"event: error\ndata: oops\n\n"]), ("status", 502, 1)),
    ],
)
async def test_a_failure_within_a_stream_comes_after_what_was_good(
    provider: Provider, upstream: Upstream, call: ProviderCall, script: Script, seen: tuple[str, int, int]
) -> None:
    upstream.enqueue(script)
    stream = await provider.stream(call)
    good: list[dict[str, Any]] = []
    with pytest.raises(UpstreamError) as caught:
        await _collect(stream, good)
    assert (caught.value.reason, caught.value.status, len(good)) == seen
    with pytest.raises(UpstreamError):
        await anext(aiter(stream))
    await stream.close()


@pytest.mark.parametrize(
    ("script", "seen"),
    [
        (Script(cut_after=0), ("cut", 502)),
        (Script(events=[]), ("cut", 502)),
        (Script(events=[], done=False), ("cut", 502)),
        (Script(events=[b": ping\n\n"]), ("cut", 502)),
        (Script(error_after=0), ("status", 502)),
        (Script(error_after=0, error={"message": "no", "type": "overloaded_error"}), ("status", 503)),
        (Script(error_after=0, error={"message": "no", "code": 429}), ("status", 429)),
        (Script(events=[b"data: hello\n\n"]), ("protocol", 502)),
    ],
)
async def test_a_stream_without_a_first_chunk_does_not_begin(
    provider: Provider, upstream: Upstream, call: ProviderCall, script: Script, seen: tuple[str, int]
) -> None:
    upstream.enqueue(script)
    with pytest.raises(UpstreamError) as caught:
        await provider.stream(call)
    assert (caught.value.reason, caught.value.status) == seen


async def test_an_upstream_that_does_not_stream(
    provider: Provider, upstream: Upstream, call: ProviderCall
) -> None:
    upstream.enqueue(
        Script(body={"choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}]})
    )
    response = await _streamed(provider, call)
    assert response.choices[0].message == {"role": "assistant", "content": "hi", "refusal": None}


@pytest.mark.parametrize("way", ["complete", "stream"])
async def test_cancelling_a_call_aborts_the_upstream(
    provider: Provider, upstream: Upstream, call: ProviderCall, way: str
) -> None:
    upstream.enqueue(Script(hang_after=0))
    task = asyncio.create_task(getattr(provider, way)(call))
    await upstream.until(calls=1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await upstream.until(disconnects=1)


async def test_cancelling_a_read_aborts_the_upstream(
    provider: Provider, upstream: Upstream, call: ProviderCall
) -> None:
    upstream.enqueue(Script(hang_after=1))
    stream = await provider.stream(call)
    task = asyncio.create_task(_read(stream))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await upstream.until(disconnects=1)


async def test_closing_a_stream_aborts_the_upstream_and_may_be_done_twice(
    provider: Provider, upstream: Upstream, call: ProviderCall
) -> None:
    upstream.enqueue(Script(hang_after=1))
    stream = await provider.stream(call)
    await stream.close()
    await stream.close()
    await upstream.until(disconnects=1)


async def test_closing_the_provider_aborts_what_is_in_flight(
    provider: Provider, upstream: Upstream, call: ProviderCall
) -> None:
    upstream.enqueue(Script(hang_after=0))
    task = asyncio.create_task(provider.complete(call))
    await upstream.until(calls=1)
    await provider.close()
    await upstream.until(disconnects=1)
    with pytest.raises(UpstreamError):
        await task
    with pytest.raises(UpstreamError):
        await provider.complete(call)


async def test_nobody_there(kind: str, over_unix: bool, tmp_path: Path, call: ProviderCall) -> None:
    base_url = f"unix://{tmp_path}/none.sock" if over_unix else "http://127.0.0.1:9/v1"
    provider = open_provider("up", ProviderSettings(kind=kind, base_url=base_url))
    for _ in range(5):
        with pytest.raises(UpstreamError) as caught:
            await provider.complete(call)
        status = 503 if kind == "engine" else 502  # an engine that is not there is loading or restarting
        assert (caught.value.reason, caught.value.status) == ("connect", status)
        assert str(tmp_path) not in str(caught.value.body)
        assert "127.0.0.1" not in str(caught.value.body)
    with pytest.raises(UpstreamError) as caught:
        await provider.stream(call)
    assert (caught.value.reason, caught.value.status, caught.value.headers) == (
        "connect",
        503,
        {"retry-after": "1"},
    )
    await provider.close()


async def test_an_unknown_kind_is_a_settings_error(kind: str, over_unix: bool) -> None:
    with pytest.raises(SettingsError, match=kind):
        load_provider(f"no-{kind}")
