"""A provider that is reached through a proxy: TLS runs through it, and it sees neither key nor prompt."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import uvloop

from gateway.errors import SettingsError, UpstreamError
from gateway.providers.contract import Provider, ProviderCall
from gateway.providers.openai import OpenAIProvider
from gateway.settings import ProviderSettings, load_settings
from tests.gateway.providers.conftest import KEY, Front, Make
from tests.servers.proxy import ForwardProxy
from tests.servers.tls import Papers, TlsFront
from tests.upstream import Upstream

USER = "ann:pr0xy-pw"


@pytest.fixture
async def proxy() -> AsyncIterator[ForwardProxy]:
    """A proxy with one user."""
    async with ForwardProxy(USER) as running:
        yield running


async def refusal(provider: Provider, call: ProviderCall) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await provider.complete(call)
    told = caught.value
    for secret in ("pr0xy-pw", "127.0.0.1", KEY):
        assert secret not in f"{told} {told.body} {told.headers} {told.advice}"
    return told


async def test_tls_runs_through_it(
    make: Make, front: Front, proxy: ForwardProxy, papers: Papers, call: ProviderCall
) -> None:
    at = front()
    provider = make(at, ca_file=papers.ours.ca, proxy=f"http://{USER}@127.0.0.1:{proxy.port}")
    for _ in range(2):
        assert (await provider.complete(call)).response.choices
    assert proxy.asked == [f"localhost:{at.port}"], "one connection, kept"
    assert KEY.encode() in at.heard
    assert KEY.encode() not in proxy.passed
    stranger = make(at, ca_file=papers.strangers.ca, proxy=f"http://{USER}@127.0.0.1:{proxy.port}")
    assert "nobody who is trusted" in (await refusal(stranger, call)).advice


async def test_a_proxy_that_refuses_or_is_away_is_named(
    make: Make, front: Front, proxy: ForwardProxy, papers: Papers, call: ProviderCall
) -> None:
    trusting = {"ca_file": papers.ours.ca}
    told = await refusal(make(front(), proxy=f"http://ann:wrong@127.0.0.1:{proxy.port}", **trusting), call)
    assert (told.reason, told.status) == ("connect", 502)
    assert told.advice.startswith("the proxy answered 407: check the setting proxy")
    told = await refusal(make(front(), proxy=f"http://{USER}@127.0.0.1:1", **trusting), call)
    assert (told.reason, told.advice) == ("connect", "the proxy could not be reached: check the setting proxy")


async def test_a_proxy_that_stalls_costs_one_deadline(
    make: Make, front: Front, papers: Papers, call: ProviderCall
) -> None:
    async with ForwardProxy(USER, silent=True) as proxy:
        address = f"http://{USER}@127.0.0.1:{proxy.port}"
        provider = make(front(), ca_file=papers.ours.ca, proxy=address, connect_timeout_s=0.3)
        began = time.perf_counter()
        assert (await refusal(provider, call)).status == 504
        assert 0.29 <= time.perf_counter() - began < 2
        await provider.close()


@pytest.mark.parametrize(
    "proxy",
    ["https://h:1", "socks5://h", "h:3128", "http://", "http://u:pr0xy-pw@h:x", "http://u:pr0xy-pw@h/path"],
)
def test_what_is_no_proxy_is_refused_and_not_repeated(proxy: str) -> None:
    environ = {"LAMINA_PROVIDERS__UP__BASE_URL": "https://h/v1", "LAMINA_PROVIDERS__UP__PROXY": proxy}
    with pytest.raises(SettingsError, match="give http://host:port") as caught:
        load_settings(environ)
    assert "pr0xy-pw" not in str(caught.value)


def test_a_proxy_does_not_show() -> None:
    settings = ProviderSettings(base_url="https://h/v1", proxy=f"http://{USER}@h:1")
    assert "pr0xy-pw" not in repr(settings)


def test_the_loop_of_workers_goes_through_it_too(papers: Papers, call: ProviderCall) -> None:
    """It has a TLS of its own."""

    async def work() -> list[str]:
        async with Upstream() as upstream, ForwardProxy(USER) as proxy:
            port = int(upstream.base_url.rpartition(":")[2].partition("/")[0])
            with TlsFront(lambda: asyncio.open_connection("127.0.0.1", port), papers.good) as at:
                address = f"http://{USER}@127.0.0.1:{proxy.port}"
                base_url = f"https://localhost:{at.port}/v1"
                settings = ProviderSettings(base_url=base_url, ca_file=papers.ours.ca, proxy=address)
                provider = OpenAIProvider("up", settings)
                try:
                    async with asyncio.timeout(10):
                        models = [(await provider.complete(call)).response.model for _ in range(2)]
                finally:
                    await provider.close()
                return [*models, *(target.partition(":")[0] for target in proxy.asked)]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(work()) == ["m-up", "m-up", "localhost"]
