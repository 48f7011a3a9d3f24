"""What people say, and what keys they have, never reaches a log line or a metric."""

import asyncio
from pathlib import Path

import orjson
import pytest
from pydantic import SecretStr

from gateway.settings import ModelSettings, ProviderSettings
from gateway.telemetry.logs import FIELDS
from tests.gateway.http.wire import CHAT, ask, chat_request, fetch, line, message, said
from tests.gateway.stand import KEY, Stand, running, settings_for
from tests.servers.redis import RedisServer
from tests.upstream import Script, Upstream

CANARY = "canary-7f3a"
UPSTREAM_KEY = f"sk-upstream-{CANARY}"


def with_canaries(number: int) -> dict[str, object]:
    """A body that holds a canary wherever a client can put one."""
    body = said(f"{CANARY} says {number}", user=CANARY, metadata={CANARY: CANARY}, **{CANARY: CANARY})
    body["messages"].append({"role": "tool", "tool_call_id": CANARY, "content": CANARY, "name": CANARY})
    return body | {"cache": {"namespace": CANARY}}


HEADERS = (
    ("x-lamina-cache-groups", CANARY),
    ("x-lamina-user", CANARY),
    ("x-lamina-cache-key", CANARY),
    ("x-request-id", CANARY),
    ("cookie", CANARY),
    ("user-agent", CANARY),
    ("origin", f"https://{CANARY}.example"),
    ("openai-organization", CANARY),
)


async def provoke(it: Stand) -> None:
    """Every way through the gateway, canaries everywhere."""
    failure = {"error": {"message": f"bad key {UPSTREAM_KEY} for {CANARY}", "type": CANARY, "code": CANARY}}
    it.upstream.default = Script(pieces=(CANARY, " answers"))
    for stream in (False, True):
        body = with_canaries(int(stream)) | {"stream": stream}
        for _ in range(2):
            assert (await ask(it, body)).status == 200
            assert (await ask(it, body, *HEADERS)).status == 200
        for script in (
            Script(status=400, body=failure),
            Script(status=500, body=failure),
            Script(body=failure),
            Script(error_after=1, error=failure["error"]),
            Script(cut_after=2),
            Script(body=CANARY.encode()),
            Script(finish_reason=CANARY),
        ):
            it.upstream.enqueue(script)
            await ask(it, said(f"{CANARY} {script}", stream=stream), ("cache-control", "no-store"))
    await ask(it, said(CANARY) | {"model": CANARY})
    await ask(it, said(CANARY, n=CANARY))
    await ask(it, f'{{"{CANARY}": "{CANARY}", "{CANARY}": 1}}'.encode())
    await ask(it, said(CANARY), ("x-lamina-cache-mode", CANARY))
    await ask(it, said(CANARY), ("content-encoding", CANARY))
    await ask(it, said(CANARY), key=f"lam_{CANARY}")
    await ask(it, said(CANARY), ("x-api-key", CANARY))
    await ask(it, said(CANARY), path=f"{CHAT}/{CANARY}")
    await ask(it, said(CANARY), path=f"{CHAT}?key={CANARY}")
    for path in (f"/v1/models/{CANARY}", f"/{CANARY}"):
        await fetch(it, path)
    async with line(it) as opened:
        await opened.send(message(CANARY, CHAT, [("host", CANARY), ("bad header", CANARY)], b""))
        await opened.reader.read()
    it.upstream.enqueue(Script(hang_after=0))
    async with line(it) as opened:
        await opened.send(chat_request(said(f"{CANARY} leaves")))
        await asyncio.sleep(0.05)


async def test_no_canary_in_logs_or_metrics(
    tmp_path: Path,
    redis_server: RedisServer,
    capfdbinary: pytest.CaptureFixture[bytes],
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Upstream() as upstream:
        provider = ProviderSettings(base_url=upstream.base_url, api_key=SecretStr(UPSTREAM_KEY))
        models = (ModelSettings(name="m", provider="up"), ModelSettings(name="open", provider="up"))
        settings = settings_for(
            tmp_path, upstream, redis_server.url, providers={"up": provider}, models=models, log_level="debug"
        )
        async with running(settings, upstream) as it:
            await provoke(it)
            page = (await fetch(it, "/metrics", key=None)).body
    assert any(call.headers["authorization"] == f"Bearer {UPSTREAM_KEY}" for call in upstream.calls)
    out, err = capfdbinary.readouterr()
    events = [orjson.loads(text) for text in out.splitlines()]
    assert len(events) >= 25
    for output in (out, err, page, caplog.text.encode()):
        assert CANARY.encode() not in output
        assert KEY.encode() not in output
        assert settings.secret is not None
        assert settings.secret.get_secret_value().encode() not in output
    assert all(event.keys() <= FIELDS for event in events)


async def test_a_request_is_one_line_that_says_why(
    tmp_path: Path, redis_server: RedisServer, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    async with Upstream() as upstream, running(settings_for(tmp_path, upstream, redis_server.url), upstream) as it:
        replies = [await ask(it, said("why")), await ask(it, said("why")), await ask(it, said("why"), key=None)]
        tenant_id = await it.tenant_id()
    events = [orjson.loads(text) for text in capfdbinary.readouterr().out.splitlines()]
    events = [event for event in events if event["event"] == "request"]
    assert [event["request_id"] for event in events] == [reply["x-request-id"] for reply in replies]
    told = [(event["status"], event["source"], event["cache"], event["reason"]) for event in events]
    assert told == [
        (200, "model", "MISS", "absent"),
        (200, "exact", "HIT", "exact"),
        (401, "none", "-", "invalid_api_key"),
    ]
    assert [event["tenant_id"] for event in events] == [tenant_id, tenant_id, "-"]
    assert events[0]["prompt_tokens"] == events[1]["prompt_tokens"] == 7
