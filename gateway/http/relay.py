"""One answer on its way out: a stored one replayed in one write, a model's relayed as it comes."""

import asyncio
import time
from dataclasses import dataclass

from gateway.errors import ApiError, UpstreamError
from gateway.http.asgi import ClientGone, Headers, Receive, Send, send_whole, until_gone
from gateway.http.edge import Trace, new_id
from gateway.http.reply import flying_headers, hit_headers
from gateway.protocols.dialect import Dialect, Events
from gateway.protocols.openai_chat import error_body
from gateway.walk import Flying, Served
from policies.cache_status import of_forward
from policies.types import ChatRequest

CLIENT_GONE = 499
"""Logged when the client left before its answer was whole; never sent."""

_LAST_WORD_S = 0.5


@dataclass(slots=True)
class Relay:
    """Sends one answer.

    Attributes:
        headers: what is sent first; grows until the answer begins.
        vendors: products whose status headers are mirrored.
        stopping: the server's time to drain is over, and what is not whole by now is told so.
    """

    dialect: Dialect
    request: ChatRequest
    send: Send
    trace: Trace
    headers: Headers
    vendors: tuple[str, ...]
    stopping: bool = False

    def _events(self, answer_id: str | None) -> Events:
        usage = self.request.include_usage
        return self.dialect.events(answer_id, int(time.time()), model=self.request.model, include_usage=usage)

    async def stored(self, served: Served) -> None:
        """Replays a stored answer: fresh id and time, usage as stored, one write."""
        trace = self.trace
        trace.status, trace.source = 200, served.layer
        trace.cache = "HIT" if served.decision.ttl_s > 0 else "STALE"
        trace.usage, trace.took_s = served.response.usage, served.took_s
        self.headers.extend(hit_headers(served, self.vendors))
        answer_id = new_id(self.dialect.id_prefix)
        if not trace.stream:
            whole = self.dialect.whole(served.response, answer_id, int(time.time()), self.request.model)
            await send_whole(self.send, 200, self.headers, whole)
            return
        events = self._events(answer_id)
        body = events.replay(served.response) + events.end()
        await self.send({"type": "http.response.start", "status": 200, "headers": self.headers})
        trace.ttft_s = time.perf_counter() - trace.begun
        await self.send({"type": "http.response.body", "body": body})

    async def live(self, flying: Flying, receive: Receive) -> None:
        """Relays the model's answer; the client's leaving ends the relay at once.

        Raises:
            UpstreamError, ApiError: the model failed before its answer began.
            ClientGone: the client left.
        """
        self.trace.source = "model" if flying.leads else "flight"
        self.trace.cache = of_forward(flying.decision).word
        relay = asyncio.ensure_future(self._stream(flying) if self.trace.stream else self._whole(flying))
        gone = asyncio.ensure_future(until_gone(receive))
        try:
            await asyncio.wait((relay, gone), return_when=asyncio.FIRST_COMPLETED)
            if not relay.done():
                self.trace.status = CLIENT_GONE
                raise ClientGone
            relay.result()
        except asyncio.CancelledError:
            self.stopping = True
            raise
        finally:
            for task in (relay, gone):
                task.cancel()
            await asyncio.gather(relay, gone, return_exceptions=True)

    async def _whole(self, flying: Flying) -> None:
        response = (await flying.passenger.landed()).response
        self.trace.source = "model" if flying.leads else "flight"
        self.headers.extend(flying_headers(flying, self.vendors))
        self.trace.usage = response.usage
        own = flying.leads and response.id.startswith(self.dialect.id_prefix)
        answer_id = response.id if own else new_id(self.dialect.id_prefix)
        whole = self.dialect.whole(response, answer_id, response.created or int(time.time()), self.request.model)
        self.trace.status = 200
        await send_whole(self.send, 200, self.headers, whole)

    async def _stream(self, flying: Flying) -> None:
        trace = self.trace
        await flying.passenger.begun()
        trace.source = "model" if flying.leads else "flight"
        self.headers.extend(flying_headers(flying, self.vendors))
        trace.status = 200
        await self.send({"type": "http.response.start", "status": 200, "headers": self.headers})
        keeps_id = flying.leads and self.dialect.keeps_stream_ids
        events = self._events(None if keeps_id else new_id(self.dialect.id_prefix))
        try:
            last = await self._pump(flying, events)
        except UpstreamError as error:
            trace.reason = f"upstream_{error.reason}"
            last = events.failed(error.status, error.body, trace.request_id)
        except ApiError as error:
            trace.reason = error.kind
            last = events.failed(error.status, error_body(error), trace.request_id)
        except asyncio.CancelledError:
            if not self.stopping:
                raise
            await self._last_word(events)
            return
        await self.send({"type": "http.response.body", "body": last})

    async def _last_word(self, events: Events) -> None:
        """Ends a stream that may not be waited for; nor is a client that does not read."""
        error = stopping()
        last = events.failed(error.status, error_body(error), self.trace.request_id)
        async with asyncio.timeout(_LAST_WORD_S):
            await self.send({"type": "http.response.body", "body": last})

    async def _pump(self, flying: Flying, events: Events) -> bytes:
        """Sends what comes as it comes; returns what closes the stream."""
        streamed = False
        async for batch in flying.passenger.batches():
            streamed = True
            part = events.chunks(batch)
            if part:
                await self._part(part)
        landing = await flying.passenger.landed()
        self.trace.usage = landing.response.usage
        if not streamed:
            await self._part(events.replay(landing.response))
        return events.end()

    async def _part(self, part: bytes) -> None:
        if self.trace.ttft_s is None:
            self.trace.ttft_s = time.perf_counter() - self.trace.begun
        await self.send({"type": "http.response.body", "body": part, "more_body": True})


def stopping() -> ApiError:
    """What a request is told that is not answered when the server's time to drain is over."""
    problem = "The gateway is stopping, and this request took longer than it may wait. Try again shortly."
    return ApiError(503, problem, code="stopping", kind="server_error", headers={"retry-after": "1"})
