"""A provider whose calls are traced, by OpenTelemetry's conventions for generative AI; only when traces are on."""

import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from gateway.errors import UpstreamError
from gateway.providers.contract import ChunkStream, Completed, Provider, ProviderCall
from gateway.telemetry.traces import RequestTrace, Span, Traces, Value, shown
from policies.types import Json, cached_tokens, token_counts

_SAMPLING = {
    "max_tokens": "gen_ai.request.max_tokens",
    "max_completion_tokens": "gen_ai.request.max_tokens",
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "seed": "gen_ai.request.seed",
    "n": "gen_ai.request.choice.count",
}
"""Figures of a request's body; nothing that holds text is among them."""


class TracedProvider:
    """Passes calls on, each with a span of its own that the upstream is told as its parent. Meets Provider.

    Args:
        name: of the provider, in the settings.
    """

    def __init__(self, name: str, provider: Provider, traces: Traces) -> None:
        self._name = name
        self._provider = provider
        self._traces = traces

    async def complete(self, call: ProviderCall) -> Completed:
        """The whole answer; see Provider."""
        trace = self._traces.current()
        if trace is None:
            return await self._provider.complete(call)
        span = self._begun(trace, call, stream=False)
        error = "cancelled"
        try:
            completed = await self._provider.complete(_told(call, trace, span))
            error = ""
        except UpstreamError as failure:
            error = failure.reason
            raise
        finally:
            if not error:
                response = completed.response
                span.attributes |= _answered(response.id, response.model, response.usage)
            trace.end(span, error)
        return completed

    async def stream(self, call: ProviderCall) -> ChunkStream:
        """Begins a stream; see Provider."""
        trace = self._traces.current()
        if trace is None:
            return await self._provider.stream(call)
        span = self._begun(trace, call, stream=True)
        begun = time.perf_counter()
        error = "cancelled"
        try:
            stream = await self._provider.stream(_told(call, trace, span))
            error = ""
        except UpstreamError as failure:
            error = failure.reason
            raise
        finally:
            if error:
                trace.end(span, error)
        span.attributes["gen_ai.response.time_to_first_chunk"] = time.perf_counter() - begun
        return _TracedStream(stream, trace, span)

    async def close(self) -> None:
        """Closes the connections."""
        await self._provider.close()

    def _begun(self, trace: RequestTrace, call: ProviderCall, *, stream: bool) -> Span:
        model = shown(call.model)
        attributes: dict[str, Value] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self._name,
            "gen_ai.request.model": model,
            "gen_ai.request.stream": stream,
        }
        figures = {field: call.body.get(field) for field in _SAMPLING}
        attributes |= {
            _SAMPLING[field]: value for field, value in figures.items() if isinstance(value, int | float)
        }
        return trace.call(f"chat {model}", attributes)


class _TracedStream:
    """A stream that ends its span when it is closed. Meets ChunkStream."""

    def __init__(self, stream: ChunkStream, trace: RequestTrace, span: Span) -> None:
        self.headers: Mapping[str, str] = stream.headers
        self._stream = stream
        self._trace = trace
        self._span = span
        self._error = "cancelled"

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        try:
            async for chunk in self._stream:
                if chunk.get("usage") or "gen_ai.response.id" not in self._span.attributes:
                    told = _answered(chunk.get("id"), chunk.get("model"), chunk.get("usage"))
                    self._span.attributes |= told
                yield chunk
            self._error = ""
        except UpstreamError as failure:
            self._error = failure.reason
            raise

    async def close(self) -> None:
        """See ChunkStream."""
        try:
            await self._stream.close()
        finally:
            if not self._span.end_ns:
                self._trace.end(self._span, self._error)


def _told(call: ProviderCall, trace: RequestTrace, span: Span) -> ProviderCall:
    return replace(call, headers={**call.headers, **trace.headers(span)})


def _answered(answer_id: object, model: object, usage: Json | None) -> dict[str, Value]:
    told: dict[str, Value] = {
        "gen_ai.response.id": shown(answer_id or ""),
        "gen_ai.response.model": shown(model or ""),
    }
    if usage:
        prompt, completion = token_counts(usage)
        told |= {
            "gen_ai.usage.input_tokens": prompt,
            "gen_ai.usage.output_tokens": completion,
            "gen_ai.usage.cache_read.input_tokens": cached_tokens(usage),
        }
    return told
