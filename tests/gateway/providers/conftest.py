from collections.abc import AsyncIterator

import pytest

from gateway.providers import load_provider
from gateway.providers.contract import Provider, ProviderCall
from gateway.settings import ProviderSettings
from tests.upstream import Upstream

BODY = {"messages": [{"role": "user", "content": "hi"}], "temperature": 0}


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with Upstream() as server:
        yield server


@pytest.fixture
async def provider(upstream: Upstream) -> AsyncIterator[Provider]:
    settings = ProviderSettings(base_url=upstream.base_url, api_key="sk-operator-secret", read_timeout_s=5)
    opened = load_provider("openai").from_settings("up", settings)
    yield opened
    await opened.close()


@pytest.fixture
def call() -> ProviderCall:
    return ProviderCall("m-up", BODY, "req-1", salt="salt-1", headers={"traceparent": "00-1-2-01"})
