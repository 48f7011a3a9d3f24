"""A whole set with everything behind TLS and certificates on both sides."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from tests.gateway.http.wire import ask, said
from tests.gateway.stand import KEY
from tests.gateway.whole_set import WholeSet
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer
from tests.servers.running_set import RunningSet
from tests.servers.tls import Papers, TlsFront
from tests.upstream import Upstream

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest_asyncio.fixture
async def upstream() -> AsyncIterator[Upstream]:
    """A model provider."""
    async with Upstream() as running:
        yield running


async def test_everything_behind_tls(
    tmp_path: Path, redis_server: RedisServer, postgres_server: PostgresServer, upstream: Upstream, papers: Papers
) -> None:
    redis, rows = str(redis_server.socket_path), str(postgres_server.folder / ".s.PGSQL.5432")
    port = int(upstream.base_url.rpartition(":")[2].partition("/")[0])
    mine, ca = papers.client, papers.ours.ca
    with (
        postgres_server.database() as plain,
        TlsFront(lambda: asyncio.open_unix_connection(redis), papers.asks) as to_redis,
        TlsFront(lambda: asyncio.open_unix_connection(rows), papers.asks, "postgres") as to_rows,
        TlsFront(lambda: asyncio.open_connection("127.0.0.1", port), papers.asks) as to_model,
    ):
        shown = f"ssl_ca_certs={ca}&ssl_certfile={mine.certificate}&ssl_keyfile={mine.key}"
        verified = f"sslmode=verify-full&sslrootcert={ca}&sslcert={mine.certificate}&sslkey={mine.key}"
        model = {"base_url": f"https://localhost:{to_model.port}/v1", "ca_file": str(ca)}
        model |= {"cert_file": str(mine.certificate), "key_file": str(mine.key)}
        environment = {
            "REDIS_URL": f"rediss://localhost:{to_redis.port}?{shown}",
            "DATABASE_URL": f"postgresql://lamina:hidden-pw@localhost:{to_rows.port}{urlsplit(plain).path}?{verified}",
            "LAMINA_BOOTSTRAP_KEY": KEY,
            "LAMINA_REDIS__DEADLINE_MS": "1000",
            "LAMINA_ENGINE__ENABLED": "false",
            "LAMINA_PROVIDERS": json.dumps({"up": model}),
            "LAMINA_MODELS": json.dumps([{"name": "m", "provider": "up"}]),
        }
        running = RunningSet(tmp_path / "home", environment)
        try:
            it = WholeSet(running, tmp_path)
            await it.start()
            told = [(await ask(it, said("who?")))["x-lamina-cache"] for _ in range(4)]
            ready = await asyncio.to_thread(running.get, "/readyz")
        finally:
            await asyncio.to_thread(running.stop)
            running.close()
    assert told == ["MISS", "HIT", "HIT", "HIT"]
    assert '"database":"ok"' in ready
    assert '"redis":"ok"' in ready
    assert upstream.count == 1
    assert "hidden-pw" not in running.output
    assert not re.search(r"redis_fault|provider_fault|Traceback", running.output)
