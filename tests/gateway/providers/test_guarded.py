import asyncio

import pytest

from gateway.errors import UpstreamError
from gateway.providers.contract import Provider, ProviderCall
from gateway.providers.guarded import GuardedProvider
from policies.breaker import Breaker
from tests.upstream import Script, Upstream


class _Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def guarded(provider: Provider, clock: _Clock) -> GuardedProvider:
    return GuardedProvider(provider, Breaker(3, 2.0), clock)


async def _fail(guarded: GuardedProvider, call: ProviderCall) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await guarded.complete(call)
    return caught.value


async def test_it_opens_probes_and_closes(
    guarded: GuardedProvider, upstream: Upstream, call: ProviderCall, clock: _Clock
) -> None:
    upstream.default = Script(status=500)
    for _ in range(3):
        assert (await _fail(guarded, call)).reason == "status"
    refused = await _fail(guarded, call)
    assert (refused.reason, refused.status, refused.headers) == ("connect", 503, {"retry-after": "2"})
    assert upstream.count == 3
    clock.now_s += 2
    await _fail(guarded, call)
    assert (upstream.count, guarded.state) == (4, "open")
    upstream.default = Script()
    clock.now_s += 2
    stream = await guarded.stream(call)
    await stream.close()
    assert guarded.state == "closed"
    await guarded.complete(call)


async def test_a_client_error_is_a_sign_of_life(
    guarded: GuardedProvider, upstream: Upstream, call: ProviderCall
) -> None:
    for status in (500, 500, 400, 500, 500, 429):
        upstream.enqueue(Script(status=status))
        assert (await _fail(guarded, call)).status == status
    assert guarded.state == "closed"


async def test_refused_credentials_are_a_sign_of_life_too(
    guarded: GuardedProvider, upstream: Upstream, call: ProviderCall
) -> None:
    """A key that may not use one model must not take the provider's other models away."""
    for status in (401, 403) * 3:
        upstream.enqueue(Script(status=status))
        assert (await _fail(guarded, call)).reason == "credentials"
    assert guarded.state == "closed"


async def test_a_cancelled_call_says_nothing(
    guarded: GuardedProvider, upstream: Upstream, call: ProviderCall
) -> None:
    upstream.default = Script(hang_after=0)
    for seen in range(1, 6):
        task = asyncio.create_task(guarded.stream(call))
        await upstream.until(calls=seen)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert guarded.state == "closed"
