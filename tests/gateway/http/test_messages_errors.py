"""On the Messages surface every error is Anthropic's own object, and the SDK raises its own class."""

from typing import Any

import anthropic
import pytest

from tests.gateway.http.anthropic_sdk import MESSAGES, NEW, claude, native, post, told
from tests.gateway.http.wire import fetch, line, message
from tests.gateway.stand import KEY, Stand
from tests.upstream import Script

pytestmark = pytest.mark.asyncio(loop_scope="module")

BEARER, OWN = ("authorization", f"Bearer {KEY}"), ("x-api-key", KEY)
WRONG_BEARER, WRONG_OWN = ("authorization", "Bearer lam_wrong"), ("x-api-key", "lam_wrong")


@pytest.mark.parametrize(
    ("credentials", "status"),
    [
        ([BEARER], 200),
        ([OWN], 200),
        ([OWN, BEARER], 200),
        ([OWN, WRONG_BEARER], 200),
        ([WRONG_BEARER, OWN], 200),
        ([WRONG_OWN, BEARER], 401),
        ([BEARER, WRONG_OWN], 401),
        ([("x-api-key", ""), BEARER], 200),
        ([("x-api-key", "x" * 2000), BEARER], 401),
        ([], 401),
        ([("x-api-key", "")], 401),
        ([("x-api-key", f"Bearer {KEY}")], 401),
    ],
    ids=lambda value: "+".join(f"{name}={text[-5:]}" for name, text in value) if isinstance(value, list) else "",
)
async def test_either_credential_is_taken_and_x_api_key_is_first(
    it: Stand, prompt: str, credentials: list[tuple[str, str]], status: int
) -> None:
    reply = await post(it, told(prompt), NEW, *credentials, key=None)
    assert reply.status == status
    if status == 401:
        native(reply, 401, "authentication_error")
        assert it.upstream.calls == []


async def test_the_sdk_sends_either(it: Stand, prompt: str) -> None:
    async with claude(it) as bearer, claude(it, "ignored", default_headers={"X-Api-Key": KEY}) as own:
        one, other = [await api.messages.create(**told(prompt)) for api in (bearer, own)]
    assert one.content == other.content


async def test_the_sdk_raises_its_own_classes(it: Stand, prompt: str) -> None:
    async with claude(it, "lam_wrong") as stranger:
        with pytest.raises(anthropic.AuthenticationError) as refused:
            await stranger.messages.create(**told(prompt))
        with pytest.raises(anthropic.AuthenticationError):
            await stranger.models.list()
    assert refused.value.request_id == refused.value.response.headers["request-id"]
    assert refused.value.type == "authentication_error"
    async with claude(it) as api:
        with pytest.raises(anthropic.NotFoundError) as unknown:
            await api.messages.create(**told(prompt) | {"model": "claude-99"})
        with pytest.raises(anthropic.NotFoundError):
            await api.models.retrieve("claude-99")
        with pytest.raises(anthropic.BadRequestError) as bad:
            await api.messages.create(**told(prompt) | {"max_tokens": -1})
    assert unknown.value.type == "not_found_error"
    assert bad.value.type == "invalid_request_error"
    assert "max_tokens" in bad.value.message


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (anthropic.BadRequestError, "invalid_request_error"),
        (anthropic.NotFoundError, "not_found_error"),
        (anthropic.ConflictError, "conflict_error"),
        (anthropic.RateLimitError, "rate_limit_error"),
        (anthropic.ServiceUnavailableError, "api_error"),
        (anthropic.GatewayTimeoutError, "timeout_error"),
    ],
)
async def test_an_upstream_error_has_the_status_and_words_of_the_upstream(
    it: Stand, prompt: str, kind: type[anthropic.APIStatusError], named: str, *, stream: bool
) -> None:
    error = {"message": "Slow down.", "type": "requests", "param": None, "code": "upstream_code"}
    relayed = {"retry-after": "7", "x-ratelimit-remaining-requests": "0"}
    it.upstream.enqueue(Script(status=kind.status_code, body={"error": error}, headers=relayed))
    async with claude(it) as api:
        with pytest.raises(kind) as caught:
            await api.messages.create(**told(prompt), stream=stream)
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["error"] == {"type": named, "message": "Slow down."}
    assert caught.value.response.headers["retry-after"] == "7"
    assert (await post(it, told(prompt)))["x-lamina-cache"] == "MISS"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("status", [401, 403])
async def test_refused_credentials_of_the_operator_are_a_502_that_is_not_sent_again(
    it: Stand, prompt: str, status: int, *, stream: bool
) -> None:
    it.upstream.enqueue(Script(status=status, body={"error": {"message": "bad key sk-operator"}}))
    async with claude(it) as api:
        with pytest.raises(anthropic.InternalServerError) as caught:
            await api.with_options(max_retries=2).messages.create(**told(prompt), stream=stream)
    assert (caught.value.status_code, caught.value.type) == (502, "api_error")
    assert "refused the gateway's credentials" in caught.value.message
    assert "sk-operator" not in caught.value.message
    assert len(it.upstream.calls) == 1


@pytest.mark.parametrize(
    "script",
    [
        Script(cut_after=3),
        Script(done=False),
        Script(error_after=3, error={"message": "CUDA died", "type": "server_error", "code": "oom"}),
    ],
    ids=["cut", "no done", "error event"],
)
async def test_a_stream_that_breaks_ends_in_an_error_event(it: Stand, prompt: str, script: Script) -> None:
    it.upstream.enqueue(script)
    reply = await post(it, told(prompt, stream=True))
    *_, last = reply.body.decode().removesuffix("\n\n").split("\n\n")
    assert last.startswith("event: error\ndata: {")
    assert reply["request-id"] in last
    assert b"message_stop" not in reply.body
    it.upstream.enqueue(script)
    async with claude(it) as api:
        with pytest.raises(anthropic.APIStatusError) as caught:
            async with api.messages.stream(**told(prompt)) as events:
                await events.get_final_message()
    assert caught.value.type == "api_error"
    assert (await post(it, told(prompt)))["x-lamina-cache"] == "MISS"


async def test_a_finished_call_nobody_could_run_is_a_502(it: Stand, prompt: str) -> None:
    broken = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at": '}}
    it.upstream.enqueue(Script(pieces=None, tool_calls=[broken], finish_reason="tool_calls"))
    native(await post(it, told(prompt)), 502, "api_error")
    assert (await post(it, told(prompt)))["x-lamina-cache"] == "MISS"


async def test_only_if_cached_without_an_entry_is_504(it: Stand, prompt: str) -> None:
    reply = await post(it, told(prompt), NEW, ("cache-control", "only-if-cached"))
    native(reply, 504, "timeout_error")
    assert reply["x-should-retry"] == "false"


BAD: dict[str, Any] = {
    "no JSON": b"{",
    "duplicate key": b'{"model": "m", "model": "m", "max_tokens": 1, "messages": []}',
    "a list": [],
    "no limit": {"model": "m", "messages": [{"role": "user", "content": "x"}]},
    "a document": told("x") | {"messages": [{"role": "user", "content": [{"type": "document", "source": {}}]}]},
    "a server's tool": told("x", tools=[{"type": "web_search_20250305", "name": "web_search"}]),
    "residence": told("x", inference_geo="eu"),
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
async def test_a_bad_request_is_400(it: Stand, body: Any) -> None:
    native(await post(it, body), 400, "invalid_request_error")
    assert it.upstream.calls == []


async def test_an_unknown_version_is_400(it: Stand) -> None:
    told_message = native(
        await post(it, told("x"), ("anthropic-version", "2031-01-01")), 400, "invalid_request_error"
    )
    assert "2026-10-21" in told_message


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", MESSAGES, 405, "invalid_request_error"),
        ("GET", "/messages", 405, "invalid_request_error"),
        ("POST", "/v1/messages/count_tokens", 404, "not_found_error"),
        ("GET", "/v1/messages/batches", 404, "not_found_error"),
        ("POST", "/messages/x", 404, "not_found_error"),
    ],
)
async def test_paths_below_messages_have_its_errors(
    it: Stand, method: str, path: str, status: int, kind: str
) -> None:
    native(await fetch(it, path, method=method), status, kind)


@pytest.mark.parametrize(("path", "status"), [("/v1/models/none", 404), ("/v1/elsewhere", 404)])
async def test_other_paths_have_the_errors_of_who_asks(it: Stand, path: str, status: int) -> None:
    native(await fetch(it, path, NEW), status, "not_found_error")
    assert (await fetch(it, path)).json["error"].keys() == {"message", "type", "param", "code"}


async def test_the_chat_surface_keeps_its_own_errors(it: Stand) -> None:
    reply = await post(it, b"{", NEW, path="/v1/chat/completions")
    assert (reply.status, reply.json["error"]["code"]) == (400, "invalid_json")
    reply = await fetch(it, "/v1/chat/completions", NEW)
    assert (reply.status, reply.json["error"].keys()) == (405, {"message", "type", "param", "code"})


async def test_a_body_that_is_too_large_is_413(it: Stand) -> None:
    async with line(it) as opened:
        head = [("host", "lamina"), BEARER, ("content-length", str(1 << 30))]
        await opened.send(message("POST", MESSAGES, head, b""))
        native(await opened.reply(), 413, "request_too_large")
