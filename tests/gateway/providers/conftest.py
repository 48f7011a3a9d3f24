import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from gateway.providers import load_provider
from gateway.providers.contract import Provider, ProviderCall
from gateway.providers.openai import OpenAIProvider
from gateway.settings import ProviderSettings
from tests.servers.tls import Behaviour, Papers, TlsFront
from tests.upstream import Upstream

Front = Callable[..., TlsFront]
Make = Callable[..., Provider]
KEY = "sk-operator-secret"
BODY = {"messages": [{"role": "user", "content": "hi"}], "temperature": 0}


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with Upstream() as server:
        yield server


@pytest.fixture
async def provider(upstream: Upstream) -> AsyncIterator[Provider]:
    settings = ProviderSettings(base_url=upstream.base_url, api_key=KEY, read_timeout_s=5)
    opened = load_provider("openai").from_settings("up", settings)
    yield opened
    await opened.close()


@pytest.fixture
def call() -> ProviderCall:
    return ProviderCall("m-up", BODY, "req-1", salt="salt-1", headers={"traceparent": "00-1-2-01"})


@pytest.fixture
def front(upstream: Upstream, papers: Papers) -> Iterator[Front]:
    """Puts TLS in front of the upstream."""
    port = int(upstream.base_url.rpartition(":")[2].partition("/")[0])
    with ExitStack() as opened:

        def make(context: ssl.SSLContext = papers.good, behaviour: Behaviour = "tls") -> TlsFront:
            return opened.enter_context(
                TlsFront(lambda: asyncio.open_connection("127.0.0.1", port), context, behaviour)
            )

        yield make


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    """Makes providers behind a front."""
    made: list[Provider] = []

    def provider(at: TlsFront, scheme: str = "https", **fields: Any) -> Provider:
        settings = ProviderSettings(base_url=f"{scheme}://localhost:{at.port}/v1", api_key=KEY, **fields)
        made.append(OpenAIProvider("up", settings))
        return made[-1]

    yield provider
    for one in made:
        await one.close()
