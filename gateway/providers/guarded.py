"""A provider behind a circuit breaker: an upstream that is down costs nothing while it is."""

import math
from collections.abc import Callable

from gateway.errors import UpstreamError
from gateway.providers.contract import ChunkStream, Completed, Provider, ProviderCall
from policies.breaker import Breaker, State

_SERVER_ERROR = 500


class GuardedProvider:
    """Passes calls on while the breaker lets them.

    A failure is anything that says the upstream is not well: no connection, a timeout, a cut before the answer,
    nonsense, or a 5xx. A 4xx says that it is well, as one about credentials does. A cancelled call says nothing.
    """

    def __init__(self, provider: Provider, breaker: Breaker, clock: Callable[[], float]) -> None:
        self._provider = provider
        self._breaker = breaker
        self._clock = clock

    @property
    def state(self) -> State:
        """The breaker's state, for metrics."""
        return self._breaker.state

    async def complete(self, call: ProviderCall) -> Completed:
        """The whole answer; see Provider."""
        self._admit()
        try:
            completed = await self._provider.complete(call)
        except UpstreamError as error:
            self._judge(error)
            raise
        self._breaker.success()
        return completed

    async def stream(self, call: ProviderCall) -> ChunkStream:
        """Begins a stream; see Provider. What happens after the first event does not touch the breaker."""
        self._admit()
        try:
            stream = await self._provider.stream(call)
        except UpstreamError as error:
            self._judge(error)
            raise
        self._breaker.success()
        return stream

    async def close(self) -> None:
        """Closes the connections."""
        await self._provider.close()

    def _admit(self) -> None:
        now_s = self._clock()
        if self._breaker.allow(now_s):
            return
        wait_s = max(1, math.ceil(self._breaker.wait_s(now_s)))
        message = "The model provider is not available at the moment."
        body = {"message": message, "type": "server_error", "param": None, "code": "upstream_unavailable"}
        raise UpstreamError("connect", 503, {"error": body}, {"retry-after": str(wait_s)})

    def _judge(self, error: UpstreamError) -> None:
        if error.reason == "credentials" or (error.reason == "status" and error.status < _SERVER_ERROR):
            self._breaker.success()
        else:
            self._breaker.failure(self._clock(), error.reason)
