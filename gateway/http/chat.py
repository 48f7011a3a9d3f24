"""A chat surface: one endpoint of one protocol over the neutral chat, hits replayed in the form asked for."""

import asyncio
import time
from collections.abc import Mapping

from gateway.asked import Asked
from gateway.errors import ApiError, UpstreamError
from gateway.http.asgi import JSON, ClientGone, Headers, Receive, Scope, Send, header_value, read_body, send_whole
from gateway.http.edge import Trace, bearer_digest, new_id
from gateway.http.parsed import Parsed, ParsedBodies
from gateway.http.relay import CLIENT_GONE, Relay, stopping
from gateway.http.reply import cors, first_headers, id_headers
from gateway.ledger import Answered, Ledger
from gateway.pipeline import Pipeline
from gateway.protocols.dialect import Dialect
from gateway.protocols.openai_chat import error_body
from gateway.settings import LimitSettings
from gateway.telemetry.logs import RequestLog
from gateway.telemetry.metrics import Metrics
from gateway.walk import Served
from policies.controls import ControlError, read_controls
from policies.freshness import failed_upstream
from policies.strict_json import StrictJsonError, loads
from policies.types import Json, cached_tokens, token_counts


class ChatSurface:
    """Answers the requests of one protocol; `route` names it in logs and metrics."""

    def __init__(
        self,
        route: str,
        dialect: Dialect,
        pipeline: Pipeline,
        *,
        limits: LimitSettings,
        metrics: Metrics,
        log: RequestLog,
        ledger: Ledger,
    ) -> None:
        self._route = route
        self._dialect = dialect
        self._pipeline = pipeline
        self._limits = limits
        self._metrics = metrics
        self._log = log
        self._ledger = ledger
        self._bodies = ParsedBodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request and records it, whatever happens."""
        trace = Trace(self._route, new_id("req_"), time.perf_counter())
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
            trace.status = CLIENT_GONE
        except asyncio.CancelledError:  # by the server alone, when its time to drain is over; the task ends here
            late = stopping()
            if trace.status == 0:
                await self._send_error(send, trace, late.status, error_body(late), late.headers)
            trace.reason = late.code or late.kind
        finally:
            self._pipeline.ended(trace.request_id)
            asyncio.get_running_loop().call_soon(self._record, trace)  # the reply, queued before, leaves first

    async def _answer(self, headers: Headers, receive: Receive, send: Send, trace: Trace) -> None:
        trace.origin = next((value for name, value in headers if name == b"origin"), None)
        digest = bearer_digest(headers)
        await self._pipeline.recognise(digest)  # strangers get no byte unpacked or parsed
        raw = await read_body(receive, headers, self._limits.body_bytes, self._limits.receive_s)
        parsed = self._parse(raw, headers)
        request = parsed.request
        try:
            controls = read_controls(headers, parsed.body)
        except ControlError as error:
            raise ApiError(400, f"Bad cache control: {error}.", code="invalid_cache_control") from None
        trace.stream = request.stream
        outcome = await self._pipeline.answer(Asked(digest, request, controls, trace.request_id, parsed.keys))
        trace.tenant_id, trace.key_id = outcome.principal.tenant_id, outcome.principal.key_id
        trace.model, trace.target = outcome.route.name, outcome.route.primary
        trace.reason = outcome.decision.reason
        start = first_headers(trace.request_id, stream=request.stream)
        start.extend(cors(trace.origin))
        relay = Relay(self._dialect, request, send, trace, start, controls.vendors)
        if isinstance(outcome, Served):
            await relay.stored(outcome)
            return
        try:
            await relay.live(outcome, receive)
        except UpstreamError as error:
            if outcome.instead is None or not failed_upstream(error.reason, error.status):
                raise
            trace.reason = outcome.instead.decision.reason
            await relay.stored(outcome.instead)
        finally:
            trace.target = outcome.passenger.flight.target or trace.target
            outcome.passenger.leave()

    def _parse(self, raw: bytes, headers: Headers) -> Parsed:
        read_with = self._dialect.read_with
        named = (raw, *(value for name, value in headers if name in read_with)) if read_with else (raw,)
        parsed = self._bodies.get(named)
        if parsed is None:
            try:
                body = loads(raw)
            except StrictJsonError as error:
                raise ApiError(400, f"Bad request body: {error}.", code="invalid_json") from None
            request = self._dialect.read(body, headers, self._limits.max_n)
            parsed = Parsed(_with_user(body, request.body), request)
            self._bodies.put(named, parsed)
        return parsed

    async def _send_error(
        self, send: Send, trace: Trace, status: int, body: Mapping[str, object], extra: Mapping[str, str]
    ) -> None:
        trace.status = status
        headers: Headers = [JSON, *id_headers(trace.request_id), *cors(trace.origin)]
        headers.extend((name.lower().encode(), header_value(value)) for name, value in extra.items())
        await send_whole(send, status, headers, self._dialect.error(status, body, trace.request_id))

    def _record(self, trace: Trace) -> None:
        latency_s = time.perf_counter() - trace.begun
        metrics = self._metrics
        metrics.request(trace.route, trace.status, trace.source, latency_s, stream=trace.stream)
        prompt, completion = token_counts(trace.usage)
        cached = cached_tokens(trace.usage) if trace.source == "model" else 0
        if trace.usage is not None:
            metrics.tokens(trace.source, trace.model, prompt, completion)
            if trace.source == "model":
                self._pipeline.spent(trace.tenant_id, prompt + completion)
        if cached:
            metrics.prompt_cached(cached)
        if trace.ttft_s is not None:
            metrics.first_byte(trace.source, trace.ttft_s)
        self._ledger.answered(_line(trace, latency_s))
        ttft_s = trace.ttft_s
        self._log(
            {
                "request_id": trace.request_id,
                "tenant_id": trace.tenant_id,
                "key_id": trace.key_id,
                "route": trace.route,
                "model": trace.model,
                "status": trace.status,
                "source": trace.source,
                "cache": trace.cache,
                "reason": trace.reason,
                "stream": trace.stream,
                "latency_ms": round(latency_s * 1000, 3),
                "ttft_ms": None if ttft_s is None else round(ttft_s * 1000, 3),
                "prompt_tokens": prompt,
                "cached_tokens": cached,
                "completion_tokens": completion,
            }
        )


def _line(trace: Trace, latency_s: float) -> Answered:
    target = trace.target
    return Answered(
        trace.request_id,
        trace.tenant_id,
        trace.route,
        trace.model,
        "-" if target is None else target.provider,
        "-" if target is None else target.upstream_model,
        trace.source,
        trace.cache,
        trace.reason,
        trace.status,
        trace.stream,
        trace.usage,
        latency_s,
        trace.ttft_s,
        trace.took_s,
    )


def _with_user(body: Json, neutral: Json) -> Json:
    """The body as sent, with the user under the neutral name, wherever the protocol has it."""
    return {**body, "user": neutral["user"]} if "user" in neutral and "user" not in body else body
