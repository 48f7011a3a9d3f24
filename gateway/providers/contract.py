"""What every provider promises. Contract test: tests/gateway/providers/test_contract.py, run over PROVIDERS."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from policies.types import CacheMark, ChatResponse, Json


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """One call to a model.

    Attributes:
        model: the name the upstream knows.
        body: neutral request body (OpenAI chat fields without model, stream, stream_options); not to be changed.
        request_id: sent as X-Request-Id.
        salt: stable per tenant between purges, not reversible to it; the engine provider sends it as `cache_salt`,
            in place of whatever a client sent.
        marks: places up to which the client asks the upstream to keep the prompt; each kind of upstream gets them
            in its own words, or not at all.
        headers: further headers to send (traceparent).
    """

    model: str
    body: Json
    request_id: str
    salt: str | None = None
    marks: tuple[CacheMark, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Completed:
    """A whole answer and the upstream headers to relay (x-ratelimit-*, openai-*, names in lower case)."""

    response: ChatResponse
    headers: Mapping[str, str]


class ChunkStream(Protocol):
    """A stream that has begun: the upstream answered 200 and the first event was read.

    Iterating yields chunk objects in OpenAI shape, `[DONE]` not included, comments dropped. The usage chunk is
    always asked for upstream and is yielded as it comes. The iteration raises UpstreamError when the upstream
    cuts (`cut`: the connection ended before `[DONE]`), stalls (`timeout`), sends an error event (`status`) or
    something that is no chunk (`protocol`). `close` aborts the upstream at once and may be called twice.
    """

    headers: Mapping[str, str]

    def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        """Yields chunks in order."""
        ...

    async def close(self) -> None:
        """Releases the connection; aborts the upstream when it is not done."""
        ...


class Provider(Protocol):
    """Two ways to ask one upstream. Cancelling either call aborts the upstream within a second."""

    async def complete(self, call: ProviderCall) -> Completed:
        """The whole answer.

        Raises:
            UpstreamError: before or during the answer.
        """
        ...

    async def stream(self, call: ProviderCall) -> ChunkStream:
        """Begins a stream; returns once the first event has come, so that a failure is still a plain error.

        Raises:
            UpstreamError: the upstream refused, or failed before its first event.
        """
        ...

    async def close(self) -> None:
        """Closes the connections."""
        ...
