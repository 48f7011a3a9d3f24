"""POST /v1/chat/completions: OpenAI chat, streaming and not, hits replayed in the form asked for."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from gateway.asked import Asked
from gateway.errors import ApiError, UpstreamError
from gateway.http.asgi import JSON, ClientGone, Headers, Receive, Scope, Send, read_body, send_whole, until_gone
from gateway.http.edge import Trace, bearer_digest, new_id
from gateway.http.reply import cors, first_headers, flying_headers, hit_headers
from gateway.pipeline import Flying, Pipeline, Served
from gateway.protocols.openai_chat import error_body, error_bytes, read_request
from gateway.protocols.render import render_chunks, render_completion
from gateway.protocols.sse import DONE, error_event, event_bytes
from gateway.settings import LimitSettings
from gateway.telemetry.metrics import Metrics
from policies.cache_status import of_forward
from policies.controls import ControlError, read_controls
from policies.strict_json import StrictJsonError, loads
from policies.types import ChatResponse, Json

_CLIENT_GONE = 499


class ChatCompletions:
    """The chat surface."""

    def __init__(
        self,
        pipeline: Pipeline,
        limits: LimitSettings,
        metrics: Metrics,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._pipeline = pipeline
        self._limits = limits
        self._metrics = metrics
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request and records it, whatever happens."""
        trace = Trace("chat", new_id("req_"), time.perf_counter())
        headers: Headers = scope["headers"]
        try:
            await self._answer(headers, receive, send, trace)
        except ApiError as error:
            await self._send_error(send, trace, error.status, error_body(error), error.headers)
            trace.reason = error.code or error.kind
        except UpstreamError as error:
            await self._send_error(send, trace, error.status, error.body, error.headers)
            trace.reason = f"upstream_{error.reason}"
        except ClientGone:
            trace.status = _CLIENT_GONE
        finally:
            self._record(trace)

    async def _answer(self, headers: Headers, receive: Receive, send: Send, trace: Trace) -> None:
        trace.origin = next((value for name, value in headers if name == b"origin"), None)
        digest = bearer_digest(headers)
        raw = await read_body(receive, headers, self._limits.body_bytes, self._limits.receive_s)
        try:
            body = loads(raw)
            request = read_request(body, self._limits.max_n)
            controls = read_controls(headers, body)
        except StrictJsonError as error:
            raise ApiError(400, f"Bad request body: {error}.", code="invalid_json") from None
        except ControlError as error:
            raise ApiError(400, f"Bad cache control: {error}.", code="invalid_cache_control") from None
        trace.stream = request.stream
        outcome = await self._pipeline.answer(Asked(digest, request, controls, trace.request_id))
        trace.tenant_id, trace.key_id = outcome.principal.tenant_id, outcome.principal.key_id
        trace.model = outcome.route.name
        trace.reason = outcome.decision.reason
        start = first_headers(trace.request_id, stream=request.stream)
        start.extend(cors(trace.origin))
        reply = _Reply(self._metrics, send, trace, start, include_usage=request.include_usage)
        if isinstance(outcome, Served):
            start.extend(hit_headers(outcome, controls.vendors))
            await reply.stored(outcome, request.model)
            return
        try:
            await reply.live(outcome, controls.vendors, receive, request.model)
        finally:
            outcome.passenger.leave()

    async def _send_error(
        self, send: Send, trace: Trace, status: int, body: Mapping[str, object], extra: Mapping[str, str]
    ) -> None:
        trace.status = status
        headers: Headers = [JSON, (b"x-request-id", trace.request_id.encode()), *cors(trace.origin)]
        headers.extend(
            (name.lower().encode(), value.encode("latin-1", "replace")) for name, value in extra.items()
        )
        await send_whole(send, status, headers, error_bytes(body))

    def _record(self, trace: Trace) -> None:
        latency_s = time.perf_counter() - trace.begun
        metrics = self._metrics
        metrics.request(trace.route, trace.status, trace.source, latency_s, stream=trace.stream)
        prompt, completion = _token_counts(trace.usage)
        if trace.usage is not None:
            metrics.tokens(trace.source, trace.model, prompt, completion)
        if trace.ttft_s is not None:
            metrics.first_byte(trace.source, trace.ttft_s)
        self._log.info(
            "request",
            request_id=trace.request_id,
            tenant_id=trace.tenant_id,
            key_id=trace.key_id,
            route=trace.route,
            model=trace.model,
            status=trace.status,
            source=trace.source,
            cache=trace.cache,
            reason=trace.reason,
            stream=trace.stream,
            latency_ms=round(latency_s * 1000, 3),
            ttft_ms=None if trace.ttft_s is None else round(trace.ttft_s * 1000, 3),
            prompt_tokens=prompt,
            completion_tokens=completion,
        )


@dataclass(slots=True)
class _Reply:
    """One answer on its way out."""

    metrics: Metrics
    send: Send
    trace: Trace
    headers: Headers
    include_usage: bool

    async def stored(self, served: Served, model: str) -> None:
        """Replays a stored answer: fresh id and time, usage as stored, one write."""
        trace = self.trace
        trace.status, trace.source = 200, "exact"
        trace.cache = "HIT" if served.decision.ttl_s > 0 else "STALE"
        trace.usage = served.response.usage
        answer_id, created = new_id("chatcmpl-"), int(time.time())
        if not trace.stream:
            whole = render_completion(served.response, answer_id, created, served.response.model or model)
            await send_whole(self.send, 200, self.headers, error_bytes(whole))
            return
        body = replay(served.response, answer_id, created, include_usage=self.include_usage)
        await self.send({"type": "http.response.start", "status": 200, "headers": self.headers})
        trace.ttft_s = time.perf_counter() - trace.begun
        await self.send({"type": "http.response.body", "body": body})

    async def live(self, flying: Flying, vendors: tuple[str, ...], receive: Receive, model: str) -> None:
        """Relays the model's answer; the client's leaving ends the relay at once."""
        self.trace.source = "model" if flying.leads else "flight"
        self.trace.cache = of_forward(flying.decision).word
        relay = asyncio.ensure_future(self._relay(flying, vendors, model))
        gone = asyncio.ensure_future(until_gone(receive))
        try:
            await asyncio.wait((relay, gone), return_when=asyncio.FIRST_COMPLETED)
            if not relay.done():
                self.trace.status = _CLIENT_GONE
                raise ClientGone
            relay.result()
        finally:
            for task in (relay, gone):
                task.cancel()
            await asyncio.gather(relay, gone, return_exceptions=True)

    async def _relay(self, flying: Flying, vendors: tuple[str, ...], model: str) -> None:
        if self.trace.stream:
            await self._relay_stream(flying, vendors)
            return
        landing = await flying.passenger.landed()
        self.headers.extend(flying_headers(flying, vendors))
        response = landing.response
        self.trace.usage = response.usage
        answer_id = response.id if flying.leads and response.id else new_id("chatcmpl-")
        whole = render_completion(
            response, answer_id, response.created or int(time.time()), response.model or model
        )
        self.trace.status = 200
        await send_whole(self.send, 200, self.headers, error_bytes(whole))

    async def _relay_stream(self, flying: Flying, vendors: tuple[str, ...]) -> None:
        trace = self.trace
        await flying.passenger.begun()
        self.headers.extend(flying_headers(flying, vendors))
        trace.status = 200
        await self.send({"type": "http.response.start", "status": 200, "headers": self.headers})
        fresh_id = None if flying.leads else new_id("chatcmpl-")
        try:
            async for part in self._parts(flying, fresh_id):
                if trace.ttft_s is None:
                    trace.ttft_s = time.perf_counter() - trace.begun
                await self.send({"type": "http.response.body", "body": part, "more_body": True})
        except UpstreamError as error:
            trace.reason = f"upstream_{error.reason}"
            await self.send({"type": "http.response.body", "body": error_event(error.body)})
            return
        except ApiError as error:
            trace.reason = error.kind
            await self.send({"type": "http.response.body", "body": error_event(error_body(error))})
            return
        await self.send({"type": "http.response.body", "body": DONE})

    async def _parts(self, flying: Flying, fresh_id: str | None) -> AsyncIterator[bytes]:
        streamed = False
        async for batch in flying.passenger.batches():
            streamed = True
            shown = [self._shown(chunk, fresh_id) for chunk in batch]
            events = b"".join(event_bytes(chunk) for chunk in shown if chunk is not None)
            if events:
                yield events
        landing = flying.passenger.flight.landing
        if landing is None:
            return
        self.trace.usage = landing.response.usage
        if not streamed:
            answer_id = fresh_id or new_id("chatcmpl-")
            chunks = _chunks(landing.response, answer_id, int(time.time()), include_usage=self.include_usage)
            yield b"".join(map(event_bytes, chunks))

    def _shown(self, chunk: dict[str, Any], fresh_id: str | None) -> dict[str, Any] | None:
        """The chunk as this client shall see it: usage only when it asked, followers under an id of their own."""
        if not self.include_usage and "usage" in chunk:
            if not chunk.get("choices"):
                return None
            chunk = {name: value for name, value in chunk.items() if name != "usage"}
        return chunk if fresh_id is None else {**chunk, "id": fresh_id}


def _chunks(response: ChatResponse, answer_id: str, created: int, *, include_usage: bool) -> list[Json]:
    return render_chunks(response, answer_id, created, response.model, include_usage=include_usage)


def replay(response: ChatResponse, answer_id: str, created: int, *, include_usage: bool) -> bytes:
    """A stored answer as a whole event stream."""
    events = [event_bytes(chunk) for chunk in _chunks(response, answer_id, created, include_usage=include_usage)]
    events.append(DONE)
    return b"".join(events)


def _token_counts(usage: Json | None) -> tuple[int, int]:
    if usage is None:
        return 0, 0
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    return prompt if isinstance(prompt, int) else 0, completion if isinstance(completion, int) else 0
