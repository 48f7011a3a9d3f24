"""A whole gateway whose Redis and providers are behind TLS: bad peers cost a counter and a line in the log."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from gateway.settings import ModelSettings, ProviderSettings, RedisSettings
from tests.gateway.http.wire import ask, measured, native, said
from tests.gateway.stand import Stand, running, settings_for
from tests.servers.redis import RedisServer
from tests.servers.tls import Behaviour, Papers, TlsFront
from tests.upstream import Upstream

MODELS = (
    ModelSettings(name="m", provider="tls"),
    ModelSettings(name="saved", provider="tls", fallback=("plain",)),
    ModelSettings(name="plain", provider="up"),
)


@contextlib.asynccontextmanager
async def behind_tls(home: Path, front: TlsFront, papers: Papers, deadline_ms: int = 1000) -> AsyncIterator[Stand]:
    """A gateway that reaches Redis through a front."""
    url = f"rediss://localhost:{front.port}?ssl_ca_certs={papers.ours.ca}"
    async with (
        Upstream() as upstream,
        running(settings_for(home, upstream, url, redis=RedisSettings(deadline_ms=deadline_ms)), upstream) as it,
    ):
        yield it


async def test_hits_come_through_tls(tmp_path: Path, redis_server: RedisServer, papers: Papers) -> None:
    path = str(redis_server.socket_path)
    with TlsFront(lambda: asyncio.open_unix_connection(path), papers.good) as front:
        async with behind_tls(tmp_path, front, papers) as it:
            first, second = await ask(it, said("who?")), await ask(it, said("who?"))
    assert [reply["x-lamina-cache"] for reply in (first, second)] == ["MISS", "HIT"]


@pytest.mark.parametrize(
    ("behaviour", "server", "reason"), [("silent", "good", "timeout"), ("tls", "foreign", "tls_untrusted")]
)
async def test_a_redis_that_is_not_believed_costs_a_deadline_and_a_counter_and_no_request(  # noqa: PLR0917
    tmp_path: Path,
    redis_server: RedisServer,
    papers: Papers,
    capfdbinary: pytest.CaptureFixture[bytes],
    behaviour: Behaviour,
    server: str,
    reason: str,
) -> None:
    path = str(redis_server.socket_path)
    with TlsFront(lambda: asyncio.open_unix_connection(path), getattr(papers, server), behaviour) as front:
        async with behind_tls(tmp_path, front, papers, 100 if behaviour == "silent" else 1000) as it:
            for _ in range(5):
                began = time.perf_counter()
                reply = await ask(it, said("who?"))
                assert (reply.status, reply["x-lamina-cache"]) == (200, "MISS")
                assert time.perf_counter() - began < 3
            assert await measured(it, "lamina_faults_total", part="redis", reason=reason) >= 1
    events = [orjson.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    told = [event["error"] for event in events if event["event"] == "redis_fault"]
    advice = "it shows a certificate of nobody who is trusted here; name its CA by ssl_ca_certs in redis_url"
    assert told == ([advice] if reason == "tls_untrusted" else []), "once, however often it is met"


async def test_a_provider_that_is_not_believed_is_a_502_or_its_fallbacks_answer(
    tmp_path: Path, redis_server: RedisServer, papers: Papers, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    async with Upstream() as upstream:
        port = int(upstream.base_url.rpartition(":")[2].partition("/")[0])
        with TlsFront(lambda: asyncio.open_connection("127.0.0.1", port), papers.good) as front:
            address = f"https://localhost:{front.port}/v1"
            providers = {
                "up": ProviderSettings(base_url=upstream.base_url),
                "tls": ProviderSettings(base_url=address, ca_file=papers.strangers.ca),
            }
            settings = settings_for(tmp_path, upstream, redis_server.url, providers=providers, models=MODELS)
            async with running(settings, upstream) as it:
                refused = await ask(it, said("who?"))
                saved = await ask(it, said("who?") | {"model": "saved"})
                assert await measured(it, "lamina_faults_total", part="provider", reason="connect") == 2
    assert native(refused, 502, type="server_error")["code"] == "upstream_connect"
    assert b"localhost" not in refused.body
    assert saved.status == 200
    events = [orjson.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    told = {(event["provider"], event["error"]) for event in events if event["event"] == "provider_fault"}
    advice = "it shows a certificate of nobody who is trusted here; name its CA by ca_file, or SSL_CERT_FILE"
    assert told == {("tls", advice)}
